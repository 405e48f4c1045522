#include "device_code.hpp"
#include "epibias/cuda/fault_record.hpp"

namespace epibias::cuda {

void clear_fault(Fault* fault, Stream stream) {
    fill_async(fault, 0xFF, sizeof(Fault), stream);
}

Fault read_fault(const Fault* fault) {
#if defined(__CUDACC__)
    check_cuda("read_fault", cudaDeviceSynchronize());
    Fault found{};
    check_cuda("read_fault", cudaMemcpy(&found, fault, sizeof(Fault), cudaMemcpyDeviceToHost));
    return found;
#else
    return *fault;
#endif
}

}  // namespace epibias::cuda
