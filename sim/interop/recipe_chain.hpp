// A recipe of Megatron-Bridge with those that it begins from: functions of the same file, or of the
// modules that it imports, where these lie beside it.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "sim/config/reader.hpp"

namespace sim {

class RecipeChain {
 public:
  // `path`: of the file, for its modules; empty: none are read. REQUIRES: `file` outlives it.
  RecipeChain(const Document& file, const std::string& name, const std::string& path);

  // The recipe first, then what it begins from, each before its own base.
  const std::vector<ObjectReader>& layers() const { return layers_; }
  // What the last of them begins from: a function that is not read.
  const std::string& base() const { return base_; }
  // Throws what was recorded at places of other files.
  void finish() const;

 private:
  struct Module {
    std::string path;
    std::unique_ptr<Document> own;
    const Document* document = nullptr;
  };
  bool add(std::size_t module, const std::string& name, int depth);
  bool follow(std::size_t module, const std::string& import, const std::string& name, int depth);
  std::size_t load(const std::string& from, const std::string& module);

  std::vector<Module> modules_;
  std::vector<ObjectReader> layers_;
  std::string base_;
  int steps_ = 0;  // names looked for
};

}  // namespace sim
