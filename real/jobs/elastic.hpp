// Going on with fewer replicas when a rank is lost: the smaller job, and how the ranks that are
// left find together. Ranks are threads of one process.
#pragma once

#include <array>
#include <condition_variable>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "real/net/heartbeat.hpp"
#include "real/net/transport.hpp"
#include "sim/base/words.hpp"
#include "sim/model/model.hpp"
#include "sim/plan/plan.hpp"

namespace real {

// ElasticBatch: what the smaller job does with the batch, by the words of budget.elastic.batch.
// off: a lost rank ends the run.
enum class ElasticBatch : std::uint8_t { off, fixed_batch, fixed_batch_per_replica };
constexpr auto words_of(ElasticBatch) {
  return std::array{sim::Word{ElasticBatch::off, "off"},
                    sim::Word{ElasticBatch::fixed_batch, "fixed_batch"},
                    sim::Word{ElasticBatch::fixed_batch_per_replica, "fixed_batch_per_replica"}};
}

// Why a job cannot go on without a replica, by key; empty: it can.
std::vector<std::string> elastic_problems(const sim::Layout& layout);

// The layout with a replica fewer. Throws std::invalid_argument where there is none.
sim::Layout without_a_replica(sim::Layout layout, const sim::Model& model, ElasticBatch batch);

struct LostRank {
  int rank = 0;           // of the job as it was
  std::int64_t step = 0;  // that was trained anew, by those that are left
  int replicas = 0;       // that are left
  std::int64_t global_batch = 0;
};

// A job that all its ranks train together until it is done or a rank is lost.
struct Crew {
  sim::Plan plan;
  std::vector<LostRank> lost{};  // so far
};

// Where the ranks that are left meet. Ranks are counted within their crew.
class Regrouping {
 public:
  // `model` outlives it.
  Regrouping(sim::Plan first, const sim::Model& model, ElasticBatch batch);

  const Crew& first() const { return *crews_.front(); }
  // A rank of `crew` is lost; whether others go on. Called before its transport goes, so that those
  // who miss it know why.
  bool leave(const Crew& crew, int rank);

  struct Place {
    const Crew* crew =
        nullptr;  // null: a rank of the same replica is lost, and it stops as a whole
    std::unique_ptr<Transport> transport{};
  };
  // join() waits until all of `crew` that go on have come, and gives `rank` its place in the next
  // one. Nothing where no rank is lost. `step`: that is trained next, anew if it was begun. Throws
  // SharedFailure where no smaller job is possible.
  std::optional<Place> join(const Crew& crew, int rank, std::int64_t step, Heartbeat& heartbeat);

 private:
  bool goes_on(int rank) const;
  void form_if_all_have_come();
  void form_next();

  const sim::Model& model_;
  ElasticBatch batch_;
  std::mutex mutex_;  // of all below
  std::condition_variable changed_;
  std::vector<std::unique_ptr<Crew>> crews_;  // the last one is in force
  std::vector<int> lost_;                     // of it
  std::map<int, std::int64_t> come_;          // ranks of it that wait for the next, their steps
  std::map<int, std::unique_ptr<Transport>> places_;  // in it, by rank of the one before
  std::string refusal_;                               // why there is no next one
};

}  // namespace real
