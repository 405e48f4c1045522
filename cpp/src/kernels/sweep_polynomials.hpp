// What: the coefficients of the sweep's exponential and logarithm, one copy for the SIMD levels
// (lanes.hpp) and for scalars on CPU and device (sweep_scalars.hpp).
//
// Minimax (Remez, relative error) of 2^f on [-1/2, 1/2] and of 2 artanh(s) / s in s^2, |s| <= 1/5.
// Constants only: sources that are compiled once per level may include it.
#pragma once

namespace epibias::kernels {

constexpr int kExp2Degree = 10;
// NOLINTBEGIN(modernize-use-std-numbers): the second is near ln 2, but not it
constexpr double kExp2Coefficients[kExp2Degree + 1] = {
    0x1.0000000000000p+0,  0x1.62e42fefa3a17p-1,  0x1.ebfbdff82c3b9p-3,  0x1.c6b08d703d482p-5,
    0x1.3b2ab6fbde118p-7,  0x1.5d87fe9cc6e90p-10, 0x1.4309126052941p-13, 0x1.ffcb55e4e076ep-17,
    0x1.62c157f2d4baap-20, 0x1.b674131b00a7cp-24, 0x1.e3991e4bf8887p-28};
// NOLINTEND(modernize-use-std-numbers)
constexpr int kArtanhDegree = 7;
constexpr double kArtanhCoefficients[kArtanhDegree + 1] = {
    0x1.0000000000000p+1, 0x1.555555555586ep-1, 0x1.99999998cf3bfp-2, 0x1.249249c1edcd4p-2,
    0x1.c71bf9ca99444p-3, 0x1.7475dcd184320p-3, 0x1.38427e24ff368p-3, 0x1.3b2b7cd0a0d40p-3};

// Where the exponential stops falling, in units of log2: 3e-300.
constexpr double kLeastExponent = -995;
// What the floored density of kKullbackLeibler does not fall below.
constexpr double kLeastFloored = 1e-305;

}  // namespace epibias::kernels
