// What: clears and reads a fault record (fault.hpp) in device memory of the current device.
//
// clear_fault enqueues 16 bytes of ones on `stream` and returns. Every launcher that takes a record
//   wants it cleared before, on the same stream.
// read_fault is the one function of this back end that waits: for everything on the device, because
//   the record may have been written on any stream.
// Determinism: as fault.hpp. Memory: none.
#pragma once

#include "epibias/cuda/fault.hpp"
#include "epibias/cuda/stream.hpp"

namespace epibias::cuda {

void clear_fault(Fault* fault, Stream stream);

[[nodiscard]] Fault read_fault(const Fault* fault);

}  // namespace epibias::cuda
