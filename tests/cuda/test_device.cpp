// The emulated device as the bindings ask for it, and fault records as they clear and read them.
#include <doctest/doctest.h>

#include <string>

#include "epibias/cuda/device.hpp"
#include "epibias/cuda/fault_record.hpp"

namespace epibias::cuda {
namespace {

TEST_SUITE("device") {
    TEST_CASE("the emulation is one device, and says that it is one") {
        const DeviceStatus status = device_status();
        CHECK(status.n_devices == 1);
        CHECK(status.reason == std::string());
        CHECK(is_emulated());
        const DeviceGuard guard(0);
    }

    TEST_CASE("a fault record is cleared, written and read") {
        Fault fault{.word = 5, .value = 7};
        clear_fault(&fault, Stream{});
        CHECK(read_fault(&fault).word == kNoFault);
        fault = {.word = fault_word(254, kMaxFaultRows - 1, kMaxFaultColumns - 1), .value = 2.5};
        const Fault read = read_fault(&fault);
        CHECK(fault_argument(read.word) == 254);
        CHECK(fault_row(read.word) == kMaxFaultRows - 1);
        CHECK(fault_column(read.word) == kMaxFaultColumns - 1);
        CHECK(read.value == 2.5);
    }
}

}  // namespace
}  // namespace epibias::cuda
