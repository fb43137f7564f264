// The models and layouts whose training is compared with that of one rank.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "sim/layout/layout.hpp"
#include "sim/model/model.hpp"
#include "tests/property/support.hpp"

namespace real::test {

// A tiny transformer; vocabularies that no tensor-parallel size pads to itself.
struct ModelTraits {
  bool llama = false;      // RMSNorm, SwiGLU, rotary, no biases; else LayerNorm, GELU, learned, all
  bool tied = false;       // head and embedding
  bool grouped = false;    // half as many key/value heads
  bool qk_norm = false;    // norms of queries and keys
  bool post_norm = false;  // norms behind the residual sums
  int layers = 4;
  int experts = 0;              // of a mixture, which has no biases; 0: none
  int per_token = 2;            // of them
  bool shared = false;          // an expert that every token passes besides
  bool dense_first = false;     // the first layer has an MLP
  const char* activation = "";  // another one than the family's
  bool stops_recomputation = false;
  bool encoder = false;  // a classifier of sentences: bidirectional, norms behind the branches
  double dropout = 0;    // everywhere
  int window = 0;        // of attention, in all layers but the second; 0: none
  double rotary_share = 1;
};

struct EquivalenceCase {
  std::string name;
  ModelTraits model;
  sim::Layout layout;
};

sim::Model equivalence_model(const ModelTraits& traits);
// A text whose bytes are tokens of these models, and sentences of unequal length with labels.
std::unique_ptr<sim::test::TemporaryFile> equivalence_text();
std::unique_ptr<sim::test::TemporaryFile> equivalence_sentences();
// The same step on one rank: all samples in micro-batches of the same size, nothing split.
sim::Layout one_rank_layout(const sim::Layout& layout);

std::vector<EquivalenceCase> listed_cases();
EquivalenceCase drawn_case(std::uint64_t seed);
// Dropout, and classifiers of padded sentences.
std::vector<EquivalenceCase> listed_encoders();
std::vector<EquivalenceCase> listed_mixtures();
EquivalenceCase drawn_mixture(std::uint64_t seed);

}  // namespace real::test
