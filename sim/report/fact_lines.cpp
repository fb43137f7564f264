// Facts of a report in words.
#include <fmt/format.h>

#include "sim/report/report.hpp"

namespace sim {
namespace {

// Text of one source: a label, what it is, and lines below it.
class Lines {
 public:
  void add(std::string_view label, const std::string& text) {
    lines_.push_back(fmt::format("{:<10}{}", label, text));
  }
  void more(const std::vector<std::string>& texts) {
    for (const std::string& text : texts)
      add("", text);
  }
  std::vector<std::string> take() { return std::move(lines_); }

 private:
  std::vector<std::string> lines_;
};

// No measured run stands behind kernels that skip what is outside of a window.
std::string window_text(const AttentionWindow& window) {
  return fmt::format("attention sees a window of {} of {} tokens in {} of {} layers{}",
                     window.tokens, window.sequence, window.layers, window.of_layers,
                     window.skipped ? "; not validated: no measured kernel or run has one"
                                    : ", which unfused kernels do not skip");
}

std::string expert_load_text(const ExpertLoadFacts& load) {
  std::string text = fmt::format("tokens of experts {} ({} row{})", load.from, load.rows,
                                 load.rows == 1 ? "" : "s");
  if (load.ranks > 1)
    text += fmt::format(
        ": to the fullest of {} ranks come {:.3g} times the average; most memory needs rank {}, to "
        "which {:.3g} times come",
        load.ranks, load.fullest, load.rank, load.held);
  if (load.dropped > 0)
    text += fmt::format("; {:.2g} % of choices are dropped", 100 * load.dropped);
  return text;
}

void add_simulation(const Report& report, const Provenance& from, Lines& lines) {
  lines.add("engine",
            fmt::format("{}, {} collectives, {}, seed {}{}", report.engine, word(from.collectives),
                        from.folded ? "folded" : "unfolded", report.seed,
                        from.jitter > 0 ? fmt::format(", jitter {}", from.jitter) : ""));
  if (from.device_spread > 0)
    lines.add("devices",
              fmt::format("speed spread {:.2g}%: products and attention at the slowest of {}",
                          100 * from.device_spread, report.layout.world_size()));
  for (const Straggler& slow : from.stragglers)
    lines.add("injected",
              fmt::format("rank {} takes {} times as long", slow.rank.value, slow.factor));
  for (const LinkFault& fault : from.faults)
    lines.add("injected", fmt::format("{} at {} of its capacity", fault.where, fault.factor));
}

}  // namespace

std::string flop_formula(const Report& report) {
  if (report.counted_flops == CountedFlops::listed)
    return "forward and backward FLOPs of every layer as the model file lists them";
  const bool half = report.counted_flops == CountedFlops::causal_half;
  return fmt::format(
      "2 m n k of every matrix product, backward {}, attention {}; MFU without, HFU with "
      "recomputation",
      report.layout.trains_adapters() ? "once the forward of frozen weights, twice of adapters"
                                      : "twice the forward",
      half ? "at half (causal)" : "in full (no causal discount)");
}

std::vector<std::string> note_lines(const Report& report) {
  std::vector<std::string> lines;
  for (const Note& note : report.import_notes)
    lines.push_back(text_of(note));
  for (const Followed& followed : report.followed)
    lines.push_back(text_of(followed));
  for (const UnmovedChange& change : report.unmoved)
    lines.push_back(
        fmt::format("{}={} does not change the step: {}", change.key, change.value, change.reason));
  if (report.expert_load) lines.push_back(expert_load_text(*report.expert_load));
  return lines;
}

std::vector<std::string> load_lines(const Report& report) {
  if (!report.loads) return {};
  const BatchLoads& loads = *report.loads;
  const bool padded = report.layout.pads_rows();
  std::vector<std::string> lines;
  lines.push_back(
      padded ? fmt::format("rows of {:.0f} tokens in the mean, {:.1f} % of them real", loads.tokens,
                           100 * loads.real_share())
             : fmt::format("{:.1f} sequences in a row, {:.1f} % of its tokens real; a token's "
                           "sequence has {:.0f} tokens in the mean",
                           loads.sequences, 100 * loads.real_share(), loads.real_attended));
  if (loads.cut > 0)
    lines.back() += fmt::format("; {:.2g} % of the sequences are cut", 100 * loads.cut);
  const int replicas = report.layout.data_parallel;
  if (replicas > 1)
    lines.push_back(fmt::format(
        "the slowest of {} replicas{} has {:.3f} times the FLOPs of the mean one, {:.3f} times its "
        "attention; all wait for it",
        replicas,
        loads.together > 1
            ? fmt::format(", {} of which go layer by layer together,", loads.together)
            : "",
        loads.imbalance, loads.attention_imbalance));
  return lines;
}

std::vector<std::string> provenance_lines(const Report& report) {
  if (!report.provenance) return {};
  const Provenance& from = *report.provenance;
  Lines lines;
  lines.add("scenario", from.scenario_path);
  lines.add("model", fmt::format("{} ({})", from.model_path, from.model_source));
  lines.more(from.model_notes);
  if (from.window) lines.add("", window_text(*from.window));
  lines.add("cluster", from.cluster_path);
  lines.more(from.cluster_sources);
  lines.add("kernels", fmt::format("{}: {}", report.device, from.device_origin));
  for (const Unvalidated& part : report.not_validated)
    lines.add("rests on",
              fmt::format("{} {}, not validated: {}", part.what, part.name, part.rests_on));
  add_simulation(report, from, lines);
  lines.add("stepcast", STEPCAST_VERSION);
  return lines.take();
}

}  // namespace sim
