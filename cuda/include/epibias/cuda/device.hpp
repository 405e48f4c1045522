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

// Whether this is the emulation, whose one device, 0, is the host.
[[nodiscard]] bool is_emulated();

// Makes `device` current and puts the caller's back, as every operator of a framework does. Does
// nothing in the emulation.
class DeviceGuard {
  public:
    explicit DeviceGuard(int device);
    ~DeviceGuard();  // NOLINT(performance-trivially-destructible): only under emulation
    DeviceGuard(const DeviceGuard&) = delete;
    DeviceGuard& operator=(const DeviceGuard&) = delete;

  private:
    int previous_ = -1;
};

}  // namespace epibias::cuda
