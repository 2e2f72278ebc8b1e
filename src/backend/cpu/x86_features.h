#pragma once
// What an x86 processor can do, asked at run time: may it run the kernels that are built for AVX2 or AVX-512?
// False on other architectures.

namespace drafthorse {

// AVX2, FMA and F16C: the *_avx2.cc files.
bool has_avx2();

// Those and AVX-512 F, BW, VL, DQ and VNNI: the *_avx512.cc files.
bool has_avx512();

}  // namespace drafthorse
