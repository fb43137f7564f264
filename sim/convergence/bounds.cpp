#include "sim/convergence/bounds.hpp"

#include <fmt/format.h>

#include <array>
#include <nlohmann/json.hpp>

#include "sim/base/table_text.hpp"
#include "sim/report/text_grid.hpp"

namespace sim {
namespace {

constexpr std::array bounds{
    ConvergenceBound{
        "local steps (local SGD)", "",
        "K workers that average their weights every H steps reach an error of order 1 / (K T) "
        "after T steps, as synchronous mini-batch SGD does, while H is at most of order "
        "sqrt(T / K).",
        "SGD; strongly convex, smooth loss; gradients of bounded variance and bounded size; all "
        "workers draw from the same data; decreasing learning rate.",
        "Stich 2018, Local SGD Converges Fast and Communicates Little, arXiv:1805.09767"},
    ConvergenceBound{
        "top-k, random-k with error feedback",
        "layout.compression.gradients=top_k or random_k, layout.compression.density",
        "SGD that keeps what it did not send and adds it later converges at the rate of SGD: the "
        "share k / d that is sent enters only terms that vanish faster as steps grow.",
        "SGD; strongly convex, smooth loss; stochastic gradients of bounded size; decreasing "
        "learning rate; enough steps, and more of them for a smaller k / d.",
        "Stich, Cordonnier & Jaggi 2018, Sparsified SGD with Memory, arXiv:1809.07599"},
    ConvergenceBound{
        "any compressor with error feedback", "",
        "With error feedback, a compressor whose error is at most a share 1 - delta of what it "
        "compresses converges at the rate of SGD also on losses that are not convex; delta "
        "enters only terms of higher order. Without error feedback, signs can fail to converge.",
        "SGD; smooth loss; stochastic gradients of bounded size.",
        "Karimireddy, Rebjock, Stich & Jaggi 2019, Error Feedback Fixes SignSGD and other "
        "Gradient Compression Schemes, arXiv:1901.09847"},
    ConvergenceBound{
        "PowerSGD", "layout.compression.gradients=power_sgd, layout.compression.rank",
        "The best approximation of rank r is a compressor in the sense of Karimireddy et al. "
        "PowerSGD replaces it by one step of power iteration from the factor of the last step, "
        "with error feedback; for that the paper relies on experiments.",
        "As Karimireddy et al., for the best approximation.",
        "Vogels, Karimireddy & Jaggi 2019, PowerSGD: Practical Low-Rank Gradient Compression for "
        "Distributed Optimization, arXiv:1905.13727"},
    ConvergenceBound{
        "1-bit Adam", "layout.compression.gradients=one_bit behind a warm_up",
        "Behind a warm-up with Adam, momentum sent as signs with error feedback, and the second "
        "moment frozen, reaches asymptotically the rate of uncompressed training.",
        "Smooth loss; gradients of bounded variance; compression errors of bounded size. The "
        "second moment has become steady when the warm-up ends: this is observed, not proved.",
        "Tang et al. 2021, 1-bit Adam: Communication Efficient Large-Scale Training with Adam's "
        "Convergence Speed, arXiv:2102.02888"},
    ConvergenceBound{
        "asynchronous steps (stale gradients)", "",
        "Gradients that are up to tau steps old give a rate of order 1 / sqrt(T), and workers a "
        "linear speed-up, while tau, or the number of workers, is at most of order sqrt(T).",
        "SGD; smooth loss, not convex; unbiased gradients of bounded variance; bounded staleness.",
        "Lian, Huang, Li & Liu 2015, Asynchronous Parallel Stochastic Gradient for Nonconvex "
        "Optimization, arXiv:1506.08272"},
    ConvergenceBound{
        "quantised gradients", "layout.compression.gradients=int8 or int4, layout.zero_stage=3",
        "Stochastic rounding to s levels per sign is unbiased and multiplies the second moment of "
        "a gradient of n numbers by at most 1 + min(n / s^2, sqrt(n) / s); SGD converges with "
        "that variance.",
        "SGD; unbiased rounding. The engine's int8 and int4 round to the nearest integer, as "
        "ZeRO++ does, which is not unbiased, so this does not cover them.",
        "Alistarh et al. 2017, QSGD: Communication-Efficient SGD via Gradient Quantization and "
        "Encoding, arXiv:1610.02132"},
    ConvergenceBound{
        "lost messages", "",
        "Where each message between workers and parameter servers is lost with a fixed chance, and "
        "averages are over what arrives, training converges at a rate comparable to that of a "
        "reliable network; the chance matters less the more servers there are.",
        "SGD; smooth loss; gradients of bounded variance; losses that are independent. The engine "
        "(--drop-rate) loses messages on the way to an average, not on the way back.",
        "Yu et al. 2019, Distributed Learning over Unreliable Networks, ICML, arXiv:1810.07766"}};

constexpr std::string_view caution =
    "These are orders of growth, with constants that are not known for a given model, and most are "
    "for SGD where models are trained with Adam. No factor follows from them: "
    "`stepcast convergence SUITE` measures one.\n";

TextGrid grid() {
  TextGrid grid{.columns = {{"scheme", "scheme"},
                            {"keys", "keys"},
                            {"proved", "proved"},
                            {"assumes", "assumes"},
                            {"source", "source"}},
                .rows = {}};
  for (const ConvergenceBound& bound : bounds)
    grid.rows.push_back({std::string{bound.scheme}, std::string{bound.keys},
                         std::string{bound.proved}, std::string{bound.assumes},
                         std::string{bound.source}});
  return grid;
}

}  // namespace

std::span<const ConvergenceBound> convergence_bounds() {
  return bounds;
}

std::string bounds_table() {
  constexpr std::size_t width = 88;
  std::string text;
  const auto part = [&](const char* title, std::string_view what) {
    bool first = true;
    for (const std::string& line : wrapped(what, width)) {
      text += fmt::format("  {:<9}{}\n", first ? title : "", line);
      first = false;
    }
  };
  for (const ConvergenceBound& bound : bounds) {
    text += fmt::format("{}\n", bound.scheme);
    if (!bound.keys.empty()) part("keys", bound.keys);
    part("proved", bound.proved);
    part("assumes", bound.assumes);
    part("source", bound.source);
    text += '\n';
  }
  for (const std::string& line : wrapped(caution, width + 11))
    text += line + '\n';
  return text;
}

std::string bounds_markdown() {
  return grid_markdown(grid()) + '\n' + std::string{caution};
}

std::string bounds_csv() {
  return grid_csv(grid());
}

std::string bounds_json() {
  nlohmann::ordered_json json = nlohmann::ordered_json::array();
  for (const ConvergenceBound& bound : bounds)
    json.push_back({{"scheme", bound.scheme},
                    {"keys", bound.keys},
                    {"proved", bound.proved},
                    {"assumes", bound.assumes},
                    {"source", bound.source}});
  return json.dump(2) + "\n";
}

}  // namespace sim
