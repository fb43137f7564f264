// What a run is trained on: a text as bytes, and which part of it every sample is.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "sim/model/model.hpp"
#include "sim/plan/layout.hpp"
#include "sim/plan/plan.hpp"
#include "sim/plan/training.hpp"

namespace real {

// Byte-level tokens: a token is a byte of the text.
class Corpus {
 public:
  // Throws InputError for a file that is not there, is too short for one sample, or has a byte that
  // is no token of the model's vocabulary.
  Corpus(const std::string& path, const sim::Model& model, std::int64_t sequence_length);
  const std::string& path() const { return path_; }
  std::int64_t size() const { return static_cast<std::int64_t>(text_.size()); }

  // Sample `sample` of the global batch of step `step`: sequence_length + 1 tokens, from a place
  // drawn from (seed, step, sample).
  void sample(std::uint64_t seed, std::int64_t step, std::int64_t sample, std::int32_t* to) const;

 private:
  std::string path_;
  std::string text_;
  std::int64_t sequence_length_ = 0;
};

// The samples of a data-parallel rank in a step, as StepInput wants them: of the global batch it
// has neighbours, micro-batch by micro-batch, so all layouts together see the same samples.
std::vector<std::int32_t> tokens_of_rank(const Corpus& corpus, const sim::Layout& layout,
                                         std::uint64_t seed, std::int64_t step, int data_rank);

}  // namespace real
