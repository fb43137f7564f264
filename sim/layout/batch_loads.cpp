#include "sim/layout/batch_loads.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "sim/base/check.hpp"
#include "sim/base/random.hpp"
#include "sim/base/rounding.hpp"
#include "sim/layout/row_packing.hpp"

namespace sim {
namespace {

constexpr std::uint64_t stream_of_draws = 17, stream_of_parts = 18;
// Steps that are drawn: so many that the mean of their slowest replicas is known to some tenths of
// a percent, fewer where a step has very many rows.
constexpr std::int64_t most_steps = 64, fewest_steps = 4, most_draws = 1 << 18;
// Hugging Face transformers, trainer_pt_utils.py, get_length_grouped_indices.
constexpr std::int64_t batches_sorted_together = 50;
constexpr std::int64_t most_sorted = 8192;  // more of a run change nothing that counts
// Distinct micro-batches of a program.
constexpr std::size_t most_kinds = 32;

// Rows are the rows of a step, in the order in which its replicas take them.
class Rows {
 public:
  Rows(const Layout& layout, const PackedRows& packed)
      : layout_{layout},
        seed_{static_cast<std::uint64_t>(layout.packing_seed)},
        rows_{packed.rows} {}

  // The rows of step t, in the order of the data.
  std::vector<PackedRow> step(std::int64_t t) const {
    const std::int64_t batch = layout_.global_batch;
    std::vector<PackedRow> drawn(static_cast<std::size_t>(batch));
    for (std::int64_t i = 0; i < batch; ++i)
      drawn[static_cast<std::size_t>(i)] = draw(t * batch + i);
    if (layout_.packing == Packing::pad_by_length) sort_parts(t, drawn);
    return drawn;
  }

 private:
  const PackedRow& draw(std::int64_t number) const {
    const double share = uniform(seed_, stream_of_draws, static_cast<std::uint64_t>(number));
    const auto row = static_cast<std::size_t>(share * static_cast<double>(rows_.size()));
    return rows_[std::min(row, rows_.size() - 1)];
  }

  // Runs of the data set's order are sorted. A run has the batches of 50 steps of one replica,
  // whatever the number of replicas (batch_size there is that of a process); of a step that is
  // larger than a run, each run by itself.
  void sort_parts(std::int64_t t, std::vector<PackedRow>& drawn) const {
    const std::int64_t own = layout_.micro_batch * layout_.micro_batches();
    const std::int64_t run = own * batches_sorted_together;
    const auto size = static_cast<std::int64_t>(drawn.size());
    const auto longer = [](const PackedRow& a, const PackedRow& b) { return a.filled > b.filled; };
    if (run <= size) {
      for (std::int64_t at = 0; at < size; at += run)
        std::stable_sort(drawn.begin() + at, drawn.begin() + std::min(at + run, size), longer);
      return;
    }
    // A step is one of several parts of a run.
    std::vector<PackedRow> all;
    const std::int64_t steps = std::min<std::int64_t>(run / size, most_sorted / size + 1);
    const auto first =
        static_cast<std::int64_t>(uniform(seed_, stream_of_parts, static_cast<std::uint64_t>(t)) *
                                  static_cast<double>(steps));
    all.reserve(static_cast<std::size_t>(steps * size));
    for (std::int64_t i = 0; i < steps * size; ++i)
      all.push_back(draw(t * steps * size + i));
    std::stable_sort(all.begin(), all.end(), longer);
    const auto begin = all.begin() + std::min(first, steps - 1) * size;
    std::copy(begin, begin + size, drawn.begin());
  }

  const Layout& layout_;
  std::uint64_t seed_;
  const std::vector<PackedRow>& rows_;
};

// Replicas whose ranks wait for each other in every layer: those that gather weights (ZeRO-3) or
// exchange tokens of experts among themselves. Others meet when a step ends.
int replicas_together(const Layout& layout) {
  const int within = layout.tensor_parallel * layout.context_parallel;
  const auto replicas = [&](int ranks, int of_each) {
    return std::clamp(divide_up(ranks, of_each), 1, layout.data_parallel);
  };
  const int shards =
      layout.zero_stage == 3 ? replicas(layout.shard_ranks(), layout.context_parallel) : 1;
  const int experts = layout.expert_parallel > 1
                          ? replicas(layout.expert_parallel * layout.expert_tensor(), within)
                          : 1;
  return std::max(shards, experts);
}

class Steps {
 public:
  Steps(const Layout& layout, double attention_weight)
      : layout_{layout},
        weight_{attention_weight},
        batches_{layout.micro_batches()},
        together_{replicas_together(layout)} {}

  // The load of micro-batch j of replica r. It has the rows, in the order of the data set, from ((j
  // x replicas) + r) x micro_batch on (Accelerate, data_loader.py, BatchSamplerShard; Megatron-LM,
  // training/datasets/data_samplers.py, MegatronPretrainingSampler).
  MicroBatchLoad micro_batch(const std::vector<PackedRow>& step, std::int64_t replica,
                             std::int64_t number) const {
    const std::int64_t rows = layout_.micro_batch;
    const auto first = static_cast<std::size_t>((number * layout_.data_parallel + replica) * rows);
    MicroBatchLoad load{layout_.sequence_length, 0};
    if (pads_rows(layout_.packing)) {
      load.tokens = 0;
      for (std::int64_t k = 0; k < rows; ++k)
        load.tokens = std::max(load.tokens, step[first + static_cast<std::size_t>(k)].filled);
      load.attended = static_cast<double>(load.tokens);
      return load;
    }
    double squares = 0;
    for (std::int64_t k = 0; k < rows; ++k)
      squares += step[first + static_cast<std::size_t>(k)].squares;
    load.attended = squares / static_cast<double>(load.tokens * rows);
    return load;
  }

  double work(const MicroBatchLoad& load) const {
    return static_cast<double>(load.tokens) * (1 + weight_ * load.attended);
  }
  static double attention(const MicroBatchLoad& load) {
    return static_cast<double>(load.tokens) * load.attended;
  }

  struct Slowest {
    double score = 0, work = 0, attention = 0;
    std::vector<MicroBatchLoad> batches;
  };

  // The time of a replica's micro-batches, in units of work. If each micro-batch takes as long in
  // every stage, the last stage ends after all of them and the longest once more for each stage
  // before it (a flow shop of equal machines); interleaved stages hold a part of it.
  double score(const std::vector<MicroBatchLoad>& batches) const {
    double sum = 0, most = 0;
    for (const MicroBatchLoad& load : batches) {
      sum += work(load);
      most = std::max(most, work(load));
    }
    return sum + most * (layout_.pipeline_parallel - 1) / layout_.virtual_stages;
  }

  Slowest slowest(const std::vector<PackedRow>& step) {
    Slowest found;
    std::vector<MicroBatchLoad> batches(static_cast<std::size_t>(batches_));
    for (int first = 0; first < layout_.data_parallel; first += together_) {
      std::fill(batches.begin(), batches.end(), MicroBatchLoad{});
      const int end = std::min(first + together_, layout_.data_parallel);
      for (int replica = first; replica < end; ++replica)
        for (std::int64_t j = 0; j < batches_; ++j) {
          const MicroBatchLoad load = micro_batch(step, replica, j);
          MicroBatchLoad& most = batches[static_cast<std::size_t>(j)];
          if (work(load) > work(most)) most = load;
          take(load);
        }
      const double now = score(batches);
      if (now > found.score) found = {now, 0, 0, batches};
    }
    for (const MicroBatchLoad& load : found.batches) {
      found.work += work(load);
      found.attention += attention(load);
    }
    return found;
  }

  void count_real(const std::vector<PackedRow>& step) {
    for (const PackedRow& row : step) {
      real_ += static_cast<double>(row.real);
      real_squares_ += row.real_squares;
    }
    real_rows_ += static_cast<double>(step.size());
  }

  double real_tokens() const { return real_ / real_rows_; }
  double real_attended() const { return real_squares_ / real_; }
  double mean_tokens() const { return tokens_ / count_; }
  double mean_attended() const { return attention_ / tokens_; }
  // Means over the replicas: work of all micro-batches of a replica.
  double mean_work() const { return work_ / count_ * static_cast<double>(batches_); }
  double mean_attention() const { return attention_ / count_ * static_cast<double>(batches_); }
  int together() const { return together_; }

 private:
  void take(const MicroBatchLoad& load) {
    ++count_;
    tokens_ += static_cast<double>(load.tokens);
    work_ += work(load);
    attention_ += attention(load);
  }

  const Layout& layout_;
  double weight_ = 0;
  std::int64_t batches_ = 1;
  int together_ = 1;
  double count_ = 0, tokens_ = 0, work_ = 0, attention_ = 0, real_ = 0;
  double real_squares_ = 0, real_rows_ = 0;
};

// Joins micro-batches of like work into one kind, their mean, where there are many.
void join_alike(std::vector<MicroBatchLoad>& batches, std::int64_t multiple, std::int64_t most) {
  if (batches.size() <= most_kinds) return;
  std::vector<std::size_t> order(batches.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return batches[a].tokens != batches[b].tokens ? batches[a].tokens < batches[b].tokens
                                                  : batches[a].attended < batches[b].attended;
  });
  for (std::size_t kind = 0; kind < most_kinds; ++kind) {
    const std::size_t begin = kind * order.size() / most_kinds;
    const std::size_t end = (kind + 1) * order.size() / most_kinds;
    double tokens = 0, attention = 0;
    for (std::size_t i = begin; i < end; ++i) {
      tokens += static_cast<double>(batches[order[i]].tokens);
      attention += static_cast<double>(batches[order[i]].tokens) * batches[order[i]].attended;
    }
    MicroBatchLoad mean{0, attention / tokens};
    const double each = tokens / static_cast<double>(end - begin);
    const auto rounded =
        static_cast<std::int64_t>(std::llround(each / static_cast<double>(multiple)));
    mean.tokens = std::clamp(rounded * multiple, std::min(multiple, most), most);
    for (std::size_t i = begin; i < end; ++i)
      batches[order[i]] = mean;
  }
}

}  // namespace

BatchLoads batch_loads(const Layout& layout, double attention_weight) {
  SIM_CHECK(layout.has_lengths());
  const PackedRows packed = packed_rows(layout);
  const Rows rows{layout, packed};
  Steps steps{layout, attention_weight};
  const std::int64_t count = std::clamp(most_draws / layout.global_batch, fewest_steps, most_steps);
  std::vector<Steps::Slowest> drawn;
  Steps::Slowest mean;
  for (std::int64_t t = 0; t < count; ++t) {
    const std::vector<PackedRow> step = rows.step(t);
    steps.count_real(step);
    drawn.push_back(steps.slowest(step));
    mean.score += drawn.back().score / static_cast<double>(count);
    mean.work += drawn.back().work / static_cast<double>(count);
    mean.attention += drawn.back().attention / static_cast<double>(count);
  }
  const auto typical =
      std::min_element(drawn.begin(), drawn.end(), [&](const auto& a, const auto& b) {
        return std::abs(a.score - mean.score) < std::abs(b.score - mean.score);
      });
  BatchLoads loads;
  loads.waited_for = typical->batches;
  join_alike(loads.waited_for, length_multiple(layout), layout.sequence_length);
  loads.tokens = steps.mean_tokens();
  loads.attended = steps.mean_attended();
  double real = 0, real_squares = 0, sequences = 0;
  for (const PackedRow& row : packed.rows) {
    loads.longest_row = std::max(loads.longest_row, row.filled);
    real += static_cast<double>(row.real);
    real_squares += row.real_squares;
    sequences += static_cast<double>(row.sequences);
  }
  const auto all = static_cast<double>(packed.rows.size());
  // Padded rows: only those of the steps that were drawn, as `tokens` is.
  const bool padded = pads_rows(layout.packing);
  loads.real_tokens = padded ? steps.real_tokens() : real / all;
  loads.real_attended = padded ? steps.real_attended() : real_squares / real;
  loads.sequences = sequences / all;
  loads.cut = static_cast<double>(packed.cut) / static_cast<double>(packed.sequences);
  loads.imbalance = mean.work / steps.mean_work();
  loads.attention_imbalance = mean.attention / steps.mean_attention();
  loads.together = steps.together();
  return loads;
}

}  // namespace sim
