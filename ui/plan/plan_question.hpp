// What the fields of a plan say, as texts, and the wish that they make.
#pragma once

#include <array>
#include <string>
#include <vector>

#include "sim/base/input_error.hpp"
#include "sim/base/words.hpp"
#include "sim/capacity/wish.hpp"

namespace ui {

enum class PlanField {
  model,
  batch,
  sequence,
  framework,
  tokens,
  deadline,
  budget,
  confidence,
  most_gpus,
  kwh,
  clusters
};
constexpr auto words_of(PlanField) {
  return std::array{
      sim::Word{PlanField::model, "model"},         sim::Word{PlanField::batch, "batch"},
      sim::Word{PlanField::sequence, "sequence"},   sim::Word{PlanField::framework, "framework"},
      sim::Word{PlanField::tokens, "tokens"},       sim::Word{PlanField::deadline, "deadline"},
      sim::Word{PlanField::budget, "budget"},       sim::Word{PlanField::confidence, "confidence"},
      sim::Word{PlanField::most_gpus, "most_gpus"}, sim::Word{PlanField::kwh, "kwh"},
      sim::Word{PlanField::clusters, "clusters"}};
}

struct ClusterAsked {
  std::string name;
  std::string price;  // of a GPU-hour, "2.50 USD"; empty: none
};

struct PlanQuestion {
  std::string path, yaml;  // of the scenario whose job it is, where no model is named
  std::vector<std::string> overrides{};
  std::array<std::string, words_of(PlanField{}).size()> texts{};  // of the fields, by PlanField
  std::vector<ClusterAsked> clusters{};
  bool offload = false;

  const std::string& text(PlanField field) const { return texts[static_cast<std::size_t>(field)]; }
  std::string& text(PlanField field) { return texts[static_cast<std::size_t>(field)]; }
};

struct FieldProblem {
  PlanField field;
  std::string what;
};

// The wish, and what is wrong with the fields: then the wish is not to be used.
struct ReadQuestion {
  sim::CapacityWish wish;
  std::vector<FieldProblem> problems;
};
ReadQuestion read_question(const PlanQuestion& question);

// The field that a mistake of the job is of; `clusters` where none is named.
PlanField field_of(const sim::Problem& problem);

// The same plan as commands of a shell, a line each. Empty: the scenario's text is not that of its
// file.
std::string commands_of(const PlanQuestion& question);

}  // namespace ui
