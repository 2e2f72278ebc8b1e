#pragma once
// How a packed matrix lies in memory. A lane is an output: 16 outputs side by side, so that a kernel needs no
// horizontal sums and the same bytes serve vectors of 4, 8 and 16 lanes.
//
// A matrix is a row of blocks of 16 outputs; a block is a row of tiles of inputs, read once, front to back.
//
// Unit: the codes of 16 outputs x 32 inputs. It decodes to 8 vectors of 64 bytes; vector j holds inputs 4j..4j+3, four
// bytes a lane. Stored as planes:
//   nibbles  4 x 64 bytes: vector v has code vector v in its low and v + 4 in its high nibbles
//   pairs    2 x 64 bytes: vector v has code vectors v, v + 2, v + 4, v + 6 in bits 0-1, 2-3, 4-5, 6-7
//   bits     1 x 64 bytes: code vector j in bit j
//   bytes    8 x 64 bytes
// 2 bits: pairs. 3 bits: pairs, then bits (the third bit). 4 bits: nibbles. 5: nibbles, bits. 6: nibbles, pairs. 8: bytes.
//
// Simple tile:  units of one scale group (one for groups of 16 and 32), 16 scales [two times 16 for groups of 16], 16 biases.
// Super tile:   256 inputs: 16 f16 d, [16 f16 -dmin], then 8 times { unit, sub-scales }.
// Float tile:   one input: 16 values. mxfp8: 32 inputs x 16 bytes, then 16 scale bytes.

#include <cstdint>

#include "backend/cpu/packed.h"

namespace drafthorse {

// clang-format off
enum class PackedLayout : uint8_t {
  // Simple tiles with biases; "32" or "64": inputs of one step (activation group).
  b2_32, b3_32, b4_32, b5_32, b6_32, b8_32,
  b2_64, b3_64, b4_64, b5_64, b6_64, b8_64,
  // Simple tiles without biases.
  q4_0, q5_0, q8_0, iq4_nl, mxfp4, nvfp4,
  // Super tiles.
  q2_k, q3_k, q4_k, q5_k, q6_k, iq4_xs,
  // Float tiles.
  f32, f16, bf16, mxfp8,
};
// clang-format on
inline constexpr int kPackedLayouts = static_cast<int>(PackedLayout::mxfp8) + 1;

enum class ScaleType : uint8_t { f16, bf16, f32, e8m0, e4m3 };
constexpr int scale_bytes(ScaleType type) { return type == ScaleType::f32 ? 4 : type <= ScaleType::bf16 ? 2 : 1; }

// How stored codes become integers. `e2m1` nibbles stand for 2 * E2M1 + 12 (unsigned, zero 12), `iq4` nibbles for the
// signed table of IQ4_NL, `s8` bytes are signed.
enum class Codes : uint8_t { b2, b3, b4, b5, b6, s8, e2m1, iq4 };

constexpr int unit_bytes(Codes codes) {
  switch (codes) {
    case Codes::b2: return 128;
    case Codes::b3: return 192;
    case Codes::b5: return 320;
    case Codes::b6: return 384;
    case Codes::s8: return 512;
    default: return 256;
  }
}
constexpr bool is_signed(Codes codes) { return codes == Codes::s8 || codes == Codes::iq4; }

enum class Tile : uint8_t { simple, super, values };
// Sub-scales of a super tile's unit: u8 scale and u8 minimum (step 32), i8 scales (two of step 16, or one of step 32),
// scale in the low and minimum in the high nibble (two of step 16).
enum class SubScales : uint8_t { none, scale_min, signed_scale, nibbles };

struct LayoutTraits {
  Tile tile = Tile::values;
  Codes codes = Codes::b4;
  int step = 32;  // inputs of one integer dot: 16, 32 or 64
  int zero = 0;   // of the decoded codes
  bool biased = false;
  SubScales sub = SubScales::none;

  constexpr int units_per_step() const { return step == 64 ? 2 : 1; }
  constexpr int steps_per_unit() const { return step == 16 ? 2 : 1; }
  constexpr int sub_bytes() const {
    return sub == SubScales::none ? 0 : sub == SubScales::signed_scale && step == 32 ? 16 : 32;
  }
  constexpr int head_bytes() const { return biased ? 64 : 32; }  // super: d and -dmin
  constexpr int super_unit_bytes() const { return unit_bytes(codes) + sub_bytes(); }
  constexpr int super_bytes() const { return head_bytes() + 8 * super_unit_bytes(); }
};

constexpr LayoutTraits traits(PackedLayout layout) {
  using P = PackedLayout;
  using C = Codes;
  constexpr C kBits[] = {C::b2, C::b3, C::b4, C::b5, C::b6, C::s8};
  int i = static_cast<int>(layout);
  if (layout <= P::b8_64)
    return {Tile::simple, kBits[i % 6], i < 6 ? 32 : 64, i % 6 == 5 ? -128 : 0, true, SubScales::none};
  switch (layout) {
    case P::q4_0: return {Tile::simple, C::b4, 32, 8, false, SubScales::none};
    case P::q5_0: return {Tile::simple, C::b5, 32, 16, false, SubScales::none};
    case P::q8_0: return {Tile::simple, C::s8, 32, 0, false, SubScales::none};
    case P::iq4_nl: return {Tile::simple, C::iq4, 32, 0, false, SubScales::none};
    case P::mxfp4: return {Tile::simple, C::e2m1, 32, 12, false, SubScales::none};
    case P::nvfp4: return {Tile::simple, C::e2m1, 16, 12, false, SubScales::none};
    case P::q2_k: return {Tile::super, C::b2, 16, 0, true, SubScales::nibbles};
    case P::q3_k: return {Tile::super, C::b3, 16, 4, false, SubScales::signed_scale};
    case P::q4_k: return {Tile::super, C::b4, 32, 0, true, SubScales::scale_min};
    case P::q5_k: return {Tile::super, C::b5, 32, 0, true, SubScales::scale_min};
    case P::q6_k: return {Tile::super, C::b6, 16, 32, false, SubScales::signed_scale};
    case P::iq4_xs: return {Tile::super, C::iq4, 32, 0, false, SubScales::signed_scale};
    default: return {};
  }
}

// The value table of IQ4_NL and IQ4_XS, and that of 2 * E2M1 + 12.
inline constexpr int8_t kIq4Table[16] = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};
inline constexpr int8_t kE2m1Table[16] = {12, 13, 14, 15, 16, 18, 20, 24, 12, 11, 10, 9, 8, 6, 4, 0};

// Bytes of one simple tile that covers `steps` steps.
constexpr int simple_tile_bytes(const LayoutTraits& t, ScaleType scale, int steps_per_tile) {
  int units = t.units_per_step() * steps_per_tile;
  int scales = 16 * scale_bytes(scale) * (t.step == 16 ? 2 : 1);
  return units * unit_bytes(t.codes) + scales * (t.biased ? 2 : 1);
}

}  // namespace drafthorse
