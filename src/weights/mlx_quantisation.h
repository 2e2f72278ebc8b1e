#pragma once
// MLX's quantised layers in a safetensors folder: which tensors are triples, and their bits and group sizes.
// Private to the room.

#include <span>
#include <string>
#include <vector>

#include <boost/json/object.hpp>

#include "core/result.h"
#include "weights/tensor.h"

namespace drafthorse {

// Replaces each triple PATH.weight (u32), PATH.scales, PATH.biases by one view named PATH.weight with its logical
// shape. The shapes leave a few (bits, group size) pairs open: bits * group_size = 32 * words / groups; the pair that
// config.json's "quantization" gives for PATH, or for all, is taken if it is one of them. Otherwise its group size
// decides, as mixed packs keep one, and only a per-path entry that contradicts the shapes is an error. Shapes that
// contradict what is given for all are followed, and a warning in the log says so.
// Errors: corrupt, naming the tensor, its shapes and what the config says; unsupported for other programs'
// quantisation ("quant_method").
Result<std::vector<TensorView>> fold_mlx_triples(std::vector<TensorView> tensors, const boost::json::object& config);

}  // namespace drafthorse
