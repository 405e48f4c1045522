#include "device_code.hpp"
#include "epibias/cuda/device.hpp"

namespace epibias::cuda {

#if defined(__CUDACC__)

namespace {

std::string version_text(int version) {
    return std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
}

}  // namespace

DeviceStatus device_status() {
    int n_devices = 0;
    const cudaError_t error = cudaGetDeviceCount(&n_devices);
    if (error == cudaSuccess) {
        return {n_devices, n_devices == 0 ? "no CUDA device on this machine" : ""};
    }
    static_cast<void>(cudaGetLastError());
    // The error is the same for no driver and for an old one; the driver's version tells them
    // apart.
    int driver = 0;
    int runtime = 0;
    static_cast<void>(cudaDriverGetVersion(&driver));
    static_cast<void>(cudaRuntimeGetVersion(&runtime));
    if (driver == 0) return {0, "no NVIDIA driver on this machine"};
    if (driver < runtime) {
        return {0, "the NVIDIA driver supports CUDA " + version_text(driver) +
                       ", this build needs " + version_text(runtime)};
    }
    return {0, std::string(cudaGetErrorName(error)) + ": " + cudaGetErrorString(error)};
}

bool is_emulated() {
    return false;
}

DeviceGuard::DeviceGuard(int device) {
    check_cuda("cudaGetDevice", cudaGetDevice(&previous_));
    if (device == previous_) {
        previous_ = -1;  // nothing to put back
        return;
    }
    check_cuda("cudaSetDevice", cudaSetDevice(device));
}

DeviceGuard::~DeviceGuard() {
    if (previous_ >= 0) static_cast<void>(cudaSetDevice(previous_));
}

#else

DeviceStatus device_status() {
    return {1, ""};
}
bool is_emulated() {
    return true;
}
DeviceGuard::DeviceGuard(int /*device*/) {}
DeviceGuard::~DeviceGuard() = default;

#endif

}  // namespace epibias::cuda
