// The kinds of file a model comes from. Each reader throws InputError with every problem of
// the file; none of them computes anything before the file is known to be sound.
#pragma once

#include <string>

#include "sim/model/model.hpp"

namespace sim {

Model read_transformer(const Document& document);
Model read_layer_list(const Document& document);
Model read_diffusion(const Document& document);
Model read_hugging_face(const Document& document);

// The name of a model whose file does not give one: "models/gpt2.yaml" -> "gpt2", and for a
// config.json the folder it lies in.
std::string name_from_path(const std::string& path);

}  // namespace sim
