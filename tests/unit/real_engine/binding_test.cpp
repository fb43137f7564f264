// Programs made ready to run: operands in the arena, and who owns, decays and counts what.
#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "real/engine/bound_program.hpp"
#include "real/engine/model_sites.hpp"
#include "real/engine/parameters.hpp"
#include "sim/model/transformer.hpp"
#include "tests/catch.hpp"
#include "tests/property/equivalence_cases.hpp"

namespace real::test {
namespace {

using sim::Role;

// The listed layouts and as many drawn ones.
std::vector<EquivalenceCase> cases() {
  std::vector<EquivalenceCase> all = listed_cases();
  for (std::uint64_t seed = 1; seed <= 20; ++seed)
    all.push_back(drawn_case(seed));
  for (const EquivalenceCase& mixture : listed_mixtures())
    all.push_back(mixture);
  for (std::uint64_t seed = 1; seed <= 10; ++seed)
    all.push_back(drawn_mixture(seed));
  return all;
}

// A case with its plan, which bound programs point into.
struct Planned {
  explicit Planned(const EquivalenceCase& one)
      : model{equivalence_model(one.model)}, plan{sim::make_plan(model, one.layout)} {}
  Planned(const Planned&) = delete;
  Planned& operator=(const Planned&) = delete;
  std::vector<BoundProgram> bound() const {
    std::vector<BoundProgram> all;
    all.reserve(static_cast<std::size_t>(plan.world_size()));
    for (int rank = 0; rank < plan.world_size(); ++rank)
      all.push_back(bind(plan, model, sim::RankId{static_cast<std::uint32_t>(rank)}));
    return all;
  }
  sim::Model model;
  sim::Plan plan;
};

bool is_vector(const Parameter& parameter) {
  return parameter.columns == 1;
}

bool holds(const std::vector<OwnedRange>& ranges, std::int64_t element) {
  for (const OwnedRange& range : ranges) {
    if (element >= range.first && element < range.first + range.count) return true;
  }
  return false;
}

// visit(bucket, parameter, element of it, element owned of the bucket) of all that a rank owns.
template <class Visit>
void for_each_owned(const BoundProgram& bound, const std::vector<Parameter>& parameters,
                    Visit visit) {
  for (const Piece& piece : pieces_of(bound, parameters)) {
    const BoundBucket& bucket = bound.buckets[piece.bucket];
    for_each_run(piece, parameters[piece.parameter], 0, piece.elements(),
                 [&](std::int64_t from, std::int64_t to, std::int64_t count) {
                   for (std::int64_t i = 0; i < count; ++i) {
                     const std::int64_t own = piece.first + from + i - bucket.owned_first;
                     if (own >= 0 && own < bucket.owned)
                       visit(bucket, piece.parameter, to + i, own);
                   }
                 });
  }
}

}  // namespace

TEST_CASE("the gradient norm counts every parameter of the model once", "[bind]") {
  for (const EquivalenceCase& one : cases()) {
    CAPTURE(one.name);
    const Planned planned{one};
    const std::vector<Parameter> parameters = parameters_of(planned.model);
    std::vector<std::vector<int>> counted, owned;
    for (const Parameter& parameter : parameters) {
      counted.emplace_back(static_cast<std::size_t>(parameter.elements()));
      owned.emplace_back(static_cast<std::size_t>(parameter.elements()));
    }
    int wrongly_decayed = 0;
    for (const BoundProgram& bound : planned.bound()) {
      for_each_owned(
          bound, parameters,
          [&](const BoundBucket& bucket, std::uint32_t p, std::int64_t at, std::int64_t own) {
            const auto element = static_cast<std::size_t>(at);
            ++owned[p][element];
            if (holds(bucket.counted, own)) ++counted[p][element];
            // Matrices and tables are decayed, norms and biases are not.
            if (holds(bucket.decayed, own) == is_vector(parameters[p])) ++wrongly_decayed;
          });
    }
    CHECK(wrongly_decayed == 0);
    for (std::size_t p = 0; p < parameters.size(); ++p) {
      CAPTURE(parameters[p].name);
      CHECK(counted[p] == std::vector<int>(counted[p].size(), 1));
      CHECK(std::count(owned[p].begin(), owned[p].end(), 0) == 0);
    }
  }
}

TEST_CASE("every operand lies in the arena, weights as large as their site", "[bind]") {
  for (const EquivalenceCase& one : cases()) {
    CAPTURE(one.name);
    const Planned planned{one};
    for (const BoundProgram& bound : planned.bound()) {
      REQUIRE(bound.ops.size() == bound.program->size());
      int outside = 0, other_size = 0;
      for (const BoundOp& op : bound.ops) {
        for (const Operand& operand : op.operands) {
          if (operand.exists() && (operand.offset + operand.bytes > bound.arena_bytes)) ++outside;
        }
        if (!subject_is_site(op.action) || op.subject == sim::Program::no_subject) continue;
        const std::int64_t bytes = bound.program->sites[op.subject].elements * 4;  // fp32
        for (const Role role : {Role::weight, Role::weight_gradient}) {
          if (op.operand(role).exists() && op.operand(role).bytes != bytes) ++other_size;
        }
      }
      CHECK(outside == 0);
      CHECK(other_size == 0);
    }
  }
}

TEST_CASE("operators that others wait for signal, and groups know their member", "[bind]") {
  for (const EquivalenceCase& one : listed_cases()) {
    CAPTURE(one.name);
    const Planned planned{one};
    for (const BoundProgram& bound : planned.bound()) {
      std::vector<bool> waited(bound.program->size());
      for (std::uint32_t op = 0; op < bound.program->size(); ++op) {
        for (const sim::OpId earlier : bound.program->dependencies({op}))
          waited[earlier.value] = true;
      }
      CHECK(bound.signals == waited);
      for (const BoundGroup& group : bound.groups) {
        if (group.index == sim::Plan::no_group) continue;
        CHECK(group.ranks[static_cast<std::size_t>(group.position)] == bound.rank);
      }
    }
  }
}

TEST_CASE("gradients that do not last are written by the first and added to by the rest",
          "[bind]") {
  // Three micro-batches. Persistent gradients (ZeRO-0) are zeroed at the start: everyone adds.
  // Under ZeRO-2 each micro-batch begins a new life of them: the head is the first to write the
  // tied table, and the lookup adds to it; everyone else is alone.
  EquivalenceCase one = listed_cases().front();
  one.model = {.tied = true};
  sim::Layout& layout = one.layout;
  layout.tensor_parallel = layout.pipeline_parallel = 1;
  layout.data_parallel = 2;
  layout.micro_batch = 1;
  layout.global_batch = 6;
  layout.zero_stage = GENERATE(0, 2);
  CAPTURE(layout.zero_stage);
  const Planned planned{one};
  const BoundProgram bound = bind(planned.plan, planned.model, sim::RankId{0});
  std::map<std::string, int> writes, adds;
  for (const BoundOp& op : bound.ops) {
    if (op.operand(Role::weight_gradient).exists())
      ++(op.accumulate ? adds : writes)[op.model_op->name];
  }
  if (layout.zero_stage == 0) {
    CHECK(writes.empty());
    CHECK(adds["head"] == 3);
  } else {
    CHECK(adds == std::map<std::string, int>{{"embedding", 3}});
    CHECK(writes["head"] == 3);
    CHECK(writes["final_norm"] == 3);
    CHECK(writes["mlp_up"] == 3 * 2 * 4);  // matrix and bias, of four layers
  }
}

}  // namespace real::test
