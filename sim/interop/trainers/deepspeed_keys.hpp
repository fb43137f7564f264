// Keys of DeepSpeed's JSON that are no settings, and "auto".
#pragma once

#include <string_view>

#include "sim/interop/settings.hpp"

namespace sim {

// Looks at what nobody has asked for at the root and in zero_optimization: a note, a problem, or
// without an effect. Sections with "enabled": false are off. Whatever is in neither table stays
// unknown. `stage`: of ZeRO; keys of stage 3 have no effect below.
void judge_deepspeed_keys(const ObjectReader& json, int stage, Imported& result);
// The same of the section bf16 or fp16.
void judge_precision_keys(const ObjectReader& section, std::string_view name, Imported& result);

// Whether the value is "auto", which transformers and Accelerate fill in from their arguments.
bool is_auto(const ObjectReader& from, std::string_view key);
// A key of that name with another value than "auto".
template <class T>
Setting<T> deepspeed_setting(const ObjectReader& from, std::string_view key) {
  Setting<T> read;
  if (!is_auto(from, key)) read_setting(from, key, read);
  return read;
}

// "optimizer": which states it keeps. An optimizer that is not described by its states alone is a
// problem.
void read_deepspeed_optimizer(const ObjectReader& json, Imported& result);

}  // namespace sim
