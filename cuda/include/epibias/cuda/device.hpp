// What: which devices there are, why there are none, and the guard that makes one current.
#pragma once

#include <string>

namespace epibias::cuda {

struct DeviceStatus {
    int n_devices = 0;
    std::string reason;  // why n_devices is 0; empty otherwise
};

// Never throws for a missing driver: a machine without one is normal.
[[nodiscard]] DeviceStatus device_status();

// Whether this is the emulation, whose only "device" is host memory (device number -1).
[[nodiscard]] bool is_emulated();

// Makes `device` current and puts the caller's back, as every operator of a framework does. The
// emulation has one device, -1.
class DeviceGuard {
  public:
    explicit DeviceGuard(int device);
    ~DeviceGuard();
    DeviceGuard(const DeviceGuard&) = delete;
    DeviceGuard& operator=(const DeviceGuard&) = delete;

  private:
    int previous_ = -1;
};

}  // namespace epibias::cuda
