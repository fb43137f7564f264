// The training data of a run: a text as bytes or a file of token ids, and which part of it every
// sample is.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "real/engine/data/input_file.hpp"
#include "real/engine/data/token_file.hpp"
#include "sim/layout/layout.hpp"
#include "sim/layout/training.hpp"
#include "sim/model/model.hpp"
#include "sim/plan/plan.hpp"

namespace real {

// Where the rows of a step come from.
class Samples {
 public:
  virtual ~Samples() = default;
  // Sample `sample` of the global batch of step `step`: sequence_length + 1 numbers, of which the
  // last is the target of the last token, or the label of the sequence.
  virtual void sample(std::uint64_t seed, std::int64_t step, std::int64_t sample,
                      std::int32_t* to) const = 0;
};

// A random number that (seed, step, sample) stand for.
std::uint64_t draw_of_sample(std::uint64_t seed, std::int64_t step, std::int64_t sample);

// Read where it lies, so files may be of any size; samples are checked as they are drawn.
class Corpus : public Samples {
 public:
  // Throws InputError for a file that is not there or is no text or token file (find_tokens), that
  // is too short for one sample, whose header says an id that is none of the model's vocabulary, or
  // for a text with a byte that is none.
  Corpus(const std::string& path, const sim::Model& model, std::int64_t sequence_length);
  const std::string& path() const { return tokens_.data; }
  std::int64_t size() const { return tokens_.count; }  // tokens

  // sequence_length + 1 tokens, from a place drawn from (seed, step, sample). Throws InputError for
  // an id that is none of the vocabulary, and for a file that cannot be read any more.
  void sample(std::uint64_t seed, std::int64_t step, std::int64_t sample,
              std::int32_t* to) const override;

 private:
  void check_header(std::int64_t sequence_length) const;
  void check_bytes() const;
  [[noreturn]] void refuse_id(std::int64_t index, std::int64_t id) const;

  TokenFile tokens_;
  InputFile file_;
  std::string model_;
  std::int64_t vocabulary_ = 0;
  std::int64_t sequence_length_ = 0;
};

// TokenRows are the rows of a step's token ids: tokens that follow each other, and the target of
// the last one. A context rank has two of each sample (kernels::ContextShare), others have one.
// Samples are packed behind each other (Layout::packed_length), or alone in a sequence of the
// layout.
struct TokenRows {
  std::int64_t samples = 1;      // of a sequence
  std::int64_t of_sequence = 1;  // rows of it
  std::int64_t tokens = 0;       // of a row
  std::int64_t width() const { return tokens + 1; }
  std::int64_t held() const { return tokens * of_sequence / samples; }  // of a sample
};
TokenRows token_rows(const sim::Layout& layout);

// The samples of a data-parallel rank in a step, as StepInput wants them: of the global batch it
// has neighbours, micro-batch by micro-batch, so all layouts together see the same samples. Of each
// a context rank has its own rows.
std::vector<std::int32_t> tokens_of_rank(const Samples& from, const sim::Layout& layout,
                                         std::uint64_t seed, std::int64_t step, int data_rank,
                                         int context_rank = 0);

}  // namespace real
