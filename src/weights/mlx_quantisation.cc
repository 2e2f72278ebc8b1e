#include "weights/mlx_quantisation.h"

#include <algorithm>
#include <optional>
#include <unordered_map>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <spdlog/spdlog.h>
#include <boost/json/value.hpp>

#include "weights/dequantise_rows.h"

namespace drafthorse {
namespace {

// A way to store a matrix.
struct Geometry {
  Format mode = Format::affine;
  int bits = 0, group_size = 0;
};

constexpr Geometry kFloatModes[] = {{Format::nvfp4, 4, 16}, {Format::mxfp4, 4, 32}, {Format::mxfp8, 8, 32}};

// What config.json says about one module.
struct Declared {
  bool present = false, quantised = true, for_this_path = false;
  std::optional<int64_t> bits, group_size;
  std::optional<std::string> mode;
};

Error tensor_error(const TensorView& weight, const std::string& text) {
  return {ErrorKind::corrupt, fmt::format("tensor \"{}\": {}", weight.name, text), {}};
}

std::optional<int64_t> integer(const boost::json::object& object, std::string_view key) {
  const boost::json::value* value = object.if_contains(key);
  if (!value || !value->is_int64()) return std::nullopt;
  return value->get_int64();
}

void read_declared(const boost::json::object& object, Declared& declared) {
  declared.present = true;
  if (const auto bits = integer(object, "bits")) declared.bits = bits;
  if (const auto size = integer(object, "group_size")) declared.group_size = size;
  if (const boost::json::value* mode = object.if_contains("mode"); mode && mode->is_string()) {
    declared.mode = std::string(mode->get_string());
  }
}

// The "quantization" object, at the top or in text_config; nullptr when the model is not quantised.
Result<const boost::json::object*> quantisation_of(const boost::json::object& config) {
  for (const char* key : {"quantization", "quantization_config"}) {
    const boost::json::value* value = config.if_contains(key);
    if (!value || value->is_null()) continue;
    const boost::json::object* object = value->if_object();
    if (!object) return Error{ErrorKind::corrupt, fmt::format("config.json: key \"{}\": expected an object", key), {}};
    if (const boost::json::value* method = object->if_contains("quant_method"); method && method->is_string()) {
      return Error{
          ErrorKind::unsupported,
          fmt::format("config.json: key \"{}\": quantisation by \"{}\" is not supported; supported are MLX packs "
                      "(affine, mxfp4, mxfp8, nvfp4) and unquantised weights",
                      key, std::string_view(method->get_string())),
          {}};
    }
    return object;
  }
  const boost::json::value* text = config.if_contains("text_config");
  if (text && text->is_object() && !text->get_object().contains("text_config"))
    return quantisation_of(text->get_object());
  return static_cast<const boost::json::object*>(nullptr);
}

Declared declared_for(const boost::json::object* quantisation, std::string_view path) {
  Declared declared;
  if (!quantisation) return declared;
  read_declared(*quantisation, declared);
  const boost::json::value* own = quantisation->if_contains(path);
  if (!own) return declared;
  declared.for_this_path = true;
  if (own->is_bool()) declared.quantised = own->get_bool();
  if (own->is_object()) read_declared(own->get_object(), declared);
  return declared;
}

// Every geometry that the two shapes allow. words, groups: the last axes of weight and scales.
std::vector<Geometry> possible_geometries(int64_t words, int64_t groups, bool affine) {
  std::vector<Geometry> result;
  const auto fits = [&](int bits, int group_size) { return words * 32 == groups * group_size * bits; };
  for (const int group_size : {64, 32, 128}) {
    for (const int bits : {2, 3, 4, 5, 6, 8}) {
      if (affine && fits(bits, group_size)) result.push_back({Format::affine, bits, group_size});
    }
  }
  for (const Geometry& mode : kFloatModes) {
    if (!affine && fits(mode.bits, mode.group_size)) result.push_back(mode);
  }
  return result;
}

bool agrees(const Geometry& geometry, const Declared& declared) {
  if (declared.mode && *declared.mode != name(geometry.mode)) return false;
  if (declared.bits && *declared.bits != geometry.bits) return false;
  return !declared.group_size || *declared.group_size == geometry.group_size;
}

// Picks the geometry of one module.
Result<Geometry> choose(const TensorView& weight, const TensorView& scales, const std::vector<Geometry>& possible,
                        const Declared& declared) {
  const auto found = std::find_if(possible.begin(), possible.end(), [&](auto& g) { return agrees(g, declared); });
  if (found != possible.end() && declared.present) return *found;
  const std::string shapes = fmt::format("weight {} and scales {}", shape_text(weight.shape), shape_text(scales.shape));
  if (declared.for_this_path) {
    return tensor_error(weight,
                        fmt::format("config.json says bits {}, group_size {}, mode {} for it, but {} contradict that",
                                    declared.bits.value_or(0), declared.group_size.value_or(0),
                                    declared.mode.value_or("affine"), shapes));
  }
  if (possible.size() == 1) return possible.front();
  std::vector<std::string> choices;
  for (const Geometry& geometry : possible) {
    if (declared.group_size == geometry.group_size) return geometry;
    choices.push_back(fmt::format("{} bits at group {}", geometry.bits, geometry.group_size));
  }
  if (choices.empty()) return tensor_error(weight, fmt::format("{} fit no bits and group size", shapes));
  return tensor_error(weight, fmt::format("{} allow {}; config.json must say which in \"quantization\"", shapes,
                                          fmt::join(choices, ", ")));
}

// All axes but the last are equal.
bool same_rows(const TensorView& a, const TensorView& b) {
  return a.shape.size() == b.shape.size() && a.shape.size() >= 2 &&
         std::equal(a.shape.begin(), a.shape.end() - 1, b.shape.begin());
}

Result<TensorView> fold(const TensorView& weight, const TensorView& scales, const TensorView* biases,
                        const Declared& declared) {
  const bool affine = scales.format != Format::u8;
  if (!declared.quantised) return tensor_error(weight, "config.json says that it is not quantised, but it has scales");
  if (weight.format != Format::u32) {
    return tensor_error(weight, fmt::format("it has scales; expected u32 words, found {}", name(weight.format)));
  }
  if (!same_rows(weight, scales)) {
    return tensor_error(weight, fmt::format("its shape {} does not go with its scales {}", shape_text(weight.shape),
                                            shape_text(scales.shape)));
  }
  if (affine && (!biases || biases->shape != scales.shape || biases->format != scales.format)) {
    return tensor_error(weight, fmt::format("expected biases {} {} like its scales, found {}", name(scales.format),
                                            shape_text(scales.shape), biases ? shape_text(biases->shape) : "none"));
  }
  if (!affine && biases) return tensor_error(weight, "it has u8 scales and biases, which no mode has together");
  const Result<Geometry> geometry =
      choose(weight, scales, possible_geometries(weight.columns(), scales.columns(), affine), declared);
  if (!geometry) return geometry.error();
  TensorView result = weight;
  result.format = geometry->mode;
  result.bits = geometry->bits;
  result.group_size = geometry->group_size;
  result.scale_format = scales.format;
  result.shape.back() = scales.columns() * geometry->group_size;
  result.scales = scales.data;
  if (biases) result.biases = biases->data;
  if (Status status = check_mlx_storage(result); !status) return status.error();
  return result;
}

// Tensors whose shapes say something else than the settings that config.json gives for all.
struct Mismatches {
  int count = 0;
  std::string first;

  void note(const TensorView& tensor, const Declared& declared) {
    if (!declared.present || agrees({tensor.format, tensor.bits, tensor.group_size}, declared)) return;
    if (count++ == 0) first = fmt::format("{} has {} bits at group {}", tensor.name, tensor.bits, tensor.group_size);
  }
  void report(const Declared& declared) const {
    if (count == 0) return;
    spdlog::warn(
        "config.json gives bits {}, group_size {} for all matrices; the shapes of {} say otherwise ({}{}) and are followed",
        declared.bits.value_or(0), declared.group_size.value_or(0), count, first, count > 1 ? ", …" : "");
  }
};

}  // namespace

Result<std::vector<TensorView>> fold_mlx_triples(std::vector<TensorView> tensors, const boost::json::object& config) {
  const Result<const boost::json::object*> quantisation = quantisation_of(config);
  if (!quantisation) return quantisation.error();
  std::unordered_map<std::string_view, const TensorView*> by_name;
  for (const TensorView& tensor : tensors) by_name.emplace(tensor.name, &tensor);
  const auto find = [&](const std::string& name) {
    const auto found = by_name.find(name);
    return found == by_name.end() ? nullptr : found->second;
  };
  constexpr std::string_view kWeight = ".weight";
  std::vector<TensorView> result;
  Mismatches mismatches;
  for (const TensorView& tensor : tensors) {
    const size_t dot = tensor.name.rfind('.');
    const std::string path = dot == std::string::npos ? tensor.name : tensor.name.substr(0, dot);
    const std::string_view part = std::string_view(tensor.name).substr(path.size());
    const TensorView *scales = find(path + ".scales"), *biases = find(path + ".biases");
    if (scales && find(path + ".weight")) {
      if (part == ".scales" || part == ".biases") continue;
      if (part == kWeight) {
        const Declared declared = declared_for(*quantisation, path);
        Result<TensorView> folded = fold(tensor, *scales, biases, declared);
        if (!folded) return folded.error();
        mismatches.note(*folded, declared);
        result.push_back(std::move(*folded));
        continue;
      }
    }
    result.push_back(tensor);
  }
  mismatches.report(declared_for(*quantisation, ""));
  return result;
}

}  // namespace drafthorse
