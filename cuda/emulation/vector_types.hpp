// What: CUDA's vector types, with CUDA's alignments, which decide how wide a load is.
#pragma once

struct dim3 {
    unsigned x = 1;
    unsigned y = 1;
    unsigned z = 1;
    constexpr dim3(unsigned x_size = 1, unsigned y_size = 1, unsigned z_size = 1) noexcept
        : x(x_size), y(y_size), z(z_size) {}
};

struct uint3 {
    unsigned x, y, z;
};

struct alignas(8) float2 {
    float x, y;
};
struct alignas(16) float4 {
    float x, y, z, w;
};
struct alignas(16) double2 {
    double x, y;
};
struct alignas(8) int2 {
    int x, y;
};
struct alignas(16) int4 {
    int x, y, z, w;
};
struct alignas(8) uint2 {
    unsigned x, y;
};
struct alignas(16) uint4 {
    unsigned x, y, z, w;
};

inline float2 make_float2(float x, float y) {
    return {x, y};
}
inline float4 make_float4(float x, float y, float z, float w) {
    return {x, y, z, w};
}
inline double2 make_double2(double x, double y) {
    return {x, y};
}
inline int2 make_int2(int x, int y) {
    return {x, y};
}
inline int4 make_int4(int x, int y, int z, int w) {
    return {x, y, z, w};
}
inline uint2 make_uint2(unsigned x, unsigned y) {
    return {x, y};
}
inline uint4 make_uint4(unsigned x, unsigned y, unsigned z, unsigned w) {
    return {x, y, z, w};
}
