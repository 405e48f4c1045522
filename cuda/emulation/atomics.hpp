// What: CUDA's atomics, for the types that CUDA has them for; relaxed, as on the device.
#pragma once

#include <type_traits>

#include "thread.hpp"

namespace epibias::cuda::emulation {

template <typename Value>
inline constexpr bool kHasIntegerAtomics =
    std::is_integral_v<Value> && (sizeof(Value) == 4 || sizeof(Value) == 8);

// Replaces *address by change(*address) and returns what stood there.
template <typename Value, typename Change>
Value atomic_update(Value* address, Change change) {
    maybe_switch();
    Value old;
    __atomic_load(address, &old, __ATOMIC_RELAXED);
    Value changed = change(old);
    while (!__atomic_compare_exchange(address, &old, &changed, false, __ATOMIC_RELAXED,
                                      __ATOMIC_RELAXED)) {
        changed = change(old);
    }
    return old;
}

}  // namespace epibias::cuda::emulation

template <typename Value>
Value atomicAdd(Value* address, std::type_identity_t<Value> value) {
    static_assert(std::is_same_v<Value, float> || std::is_same_v<Value, double> ||
                  epibias::cuda::emulation::kHasIntegerAtomics<Value>);
    if constexpr (std::is_integral_v<Value>) {
        epibias::cuda::emulation::maybe_switch();
        return __atomic_fetch_add(address, value, __ATOMIC_RELAXED);
    } else {
        return epibias::cuda::emulation::atomic_update(address,
                                                       [&](Value old) { return old + value; });
    }
}

template <typename Value>
Value atomicSub(Value* address, std::type_identity_t<Value> value) {
    static_assert(sizeof(Value) == 4 && std::is_integral_v<Value>);
    epibias::cuda::emulation::maybe_switch();
    return __atomic_fetch_sub(address, value, __ATOMIC_RELAXED);
}

template <typename Value>
Value atomicMin(Value* address, std::type_identity_t<Value> value) {
    static_assert(epibias::cuda::emulation::kHasIntegerAtomics<Value>);
    return epibias::cuda::emulation::atomic_update(
        address, [&](Value old) { return value < old ? value : old; });
}

template <typename Value>
Value atomicMax(Value* address, std::type_identity_t<Value> value) {
    static_assert(epibias::cuda::emulation::kHasIntegerAtomics<Value>);
    return epibias::cuda::emulation::atomic_update(
        address, [&](Value old) { return old < value ? value : old; });
}

template <typename Value>
Value atomicOr(Value* address, std::type_identity_t<Value> value) {
    static_assert(epibias::cuda::emulation::kHasIntegerAtomics<Value>);
    epibias::cuda::emulation::maybe_switch();
    return __atomic_fetch_or(address, value, __ATOMIC_RELAXED);
}

template <typename Value>
Value atomicAnd(Value* address, std::type_identity_t<Value> value) {
    static_assert(epibias::cuda::emulation::kHasIntegerAtomics<Value>);
    epibias::cuda::emulation::maybe_switch();
    return __atomic_fetch_and(address, value, __ATOMIC_RELAXED);
}

template <typename Value>
Value atomicExch(Value* address, std::type_identity_t<Value> value) {
    static_assert(std::is_same_v<Value, float> ||
                  epibias::cuda::emulation::kHasIntegerAtomics<Value>);
    return epibias::cuda::emulation::atomic_update(address, [&](Value) { return value; });
}

template <typename Value>
Value atomicCAS(Value* address, std::type_identity_t<Value> expected,
                std::type_identity_t<Value> value) {
    static_assert(epibias::cuda::emulation::kHasIntegerAtomics<Value>);
    epibias::cuda::emulation::maybe_switch();
    __atomic_compare_exchange_n(address, &expected, value, false, __ATOMIC_RELAXED,
                                __ATOMIC_RELAXED);
    return expected;
}
