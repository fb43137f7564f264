// Options of `stepcast import` that a file leaves open: told all at once, with a command to copy.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "sim/interop/handover.hpp"

namespace sim {

class MissingOptions {
 public:
  explicit MissingOptions(std::string_view format) : format_{format} {}

  // `option` with an example of its value ("--gpus 8"); `why`: what of the file needs it.
  void add(std::string_view option, std::string why) {
    entries_.push_back({std::string{option}, std::move(why)});
  }
  // add_common() adds the options that any model and batch need.
  void add_common(const ImportRequest& request);
  bool any() const { return !entries_.empty(); }
  // "not in this file: the model (--model llama-3.1-8b), ...; for example: stepcast import ..."
  std::string sentence(std::string_view file) const;

 private:
  struct Entry {
    std::string option, why;
  };
  std::string_view format_;
  std::vector<Entry> entries_;
};

}  // namespace sim
