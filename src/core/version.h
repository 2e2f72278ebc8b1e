#pragma once
namespace drafthorse {
inline constexpr const char* kVersion = "0.1.0";
}
