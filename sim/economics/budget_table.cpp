// The answer as text for people.
#include <fmt/format.h>

#include <cmath>

#include "sim/base/quantity.hpp"
#include "sim/economics/budget_report.hpp"
#include "sim/report/numbers.hpp"
#include "sim/report/page.hpp"

namespace sim {
namespace {

// "12.3 min", "2.1 days".
std::string amount(Seconds time) {
  const double seconds = time.count();
  if (time == never) return "never";
  if (seconds < 120) return fmt::format("{:.3g} s", seconds);
  if (seconds < 7200) return fmt::format("{:.3g} min", seconds / 60);
  if (seconds < 2 * 86400) return fmt::format("{:.3g} h", seconds / 3600);
  return fmt::format("{} days", significant(seconds / 86400));
}

std::string energy_text(double kwh) {
  return kwh >= 1e6 ? fmt::format("{:.4g} GWh", kwh / 1e6) : significant(kwh) + " kWh";
}

class Table {
 public:
  Table(const BudgetAnswer& answer, TextStyle style)
      : page_{style}, answer_{answer}, forecast_{answer.forecast}, budget_{answer.budget} {}

  std::string text() {
    headline();
    if (forecast_.fits && answer_.forecast.rented.ends()) {
      bill();
      goodput("Goodput", forecast_.rented);
      if (has_spot()) goodput("Goodput on spot", *forecast_.spot);
      time_spent();
      checkpoints();
      helps();
    }
    if (answer_.finish) finish(*answer_.finish);
    assumptions();
    return page_.take();
  }

 private:
  bool has_spot() const { return forecast_.spot && forecast_.spot->ends(); }

  void headline() {
    const Layout& l = forecast_.layout;
    page_.line(
        page_.paint("1", fmt::format("{}: {} on {} x {}", forecast_.scenario, forecast_.model,
                                     grouped(forecast_.gpus), forecast_.device)));
    page_.line(fmt::format("{}, {} node{}; tp {} x cp {} x pp {} x dp {}, global batch {}",
                           forecast_.cluster, grouped(forecast_.nodes),
                           forecast_.nodes == 1 ? "" : "s", l.tensor_parallel, l.context_parallel,
                           l.pipeline_parallel, l.data_parallel, grouped(l.global_batch)));
    if (!forecast_.fits) return;
    page_.line(fmt::format(
        "{} {} in {} steps of {}; {} a step, simulated (MFU {:.1f} %)",
        significant(forecast_.tokens), forecast_.counts_samples ? "samples" : "tokens",
        grouped(forecast_.steps), significant(static_cast<double>(forecast_.tokens_per_step)),
        precise(forecast_.step), 100 * forecast_.mfu));
    if (forecast_.interval) step_interval(*forecast_.interval);
  }

  void step_interval(const TimeInterval& interval) {
    page_.line(fmt::format(
        "the step of {:.0f} % of such runs takes {}: days, GPU-hours, cost and "
        "energy scale with it",
        100 * interval.level,
        range_text(interval.shortest(forecast_.step), interval.longest(forecast_.step))));
    if (interval.of_unknown_framework()) page_.line(std::string{unnamed_text});
  }

  // A row with a column for each kind of capacity.
  template <class Text>
  void row(const char* name, Text text) {
    page_.line(has_spot() ? fmt::format("  {:<16}{:<40}{}", name, text(forecast_.rented),
                                        text(*forecast_.spot))
                          : fmt::format("  {:<16}{}", name, text(forecast_.rented)));
  }

  void bill() {
    page_.heading("Time and money", forecast_.interval
                                        ? "mean (95 % of runs, the step's error among what varies)"
                                        : "mean (95 % of runs)");
    row("",
        [&](const RunForecast& run) { return &run == &forecast_.rented ? "on demand" : "spot"; });
    row("days", [](const RunForecast& run) {
      return fmt::format("{:.2f} ({:.2f} to {:.2f})", in_days(run.wall.mean),
                         in_days(run.quantile(0.025)), in_days(run.quantile(0.975)));
    });
    if (forecast_.interval)
      row("", [](const RunForecast& run) {
        return fmt::format("({:.2f} to {:.2f} by failures alone)",
                           in_days(run.wall.quantile(0.025)), in_days(run.wall.quantile(0.975)));
      });
    row("GPU-hours",
        [&](const RunForecast& run) { return significant(gpu_hours(forecast_, run.wall.mean)); });
    if (budget_.prices.gpu_hour || budget_.prices.spot)
      rent();
    else
      page_.line("  cost            (no price is given: budget.price.gpu_hour)");
    row("energy", [&](const RunForecast& run) {
      const double kwh = energy_kwh(forecast_, budget_, run.wall.mean);
      return budget_.prices.kwh
                 ? fmt::format("{}, {} {}", energy_text(kwh),
                               significant(kwh * *budget_.prices.kwh), budget_.prices.currency)
                 : energy_text(kwh);
    });
    if (budget_.finish_in)
      row("in time", [&](const RunForecast& run) {
        return fmt::format("{:.2f} % of runs end within {:g} days",
                           100 * run.probability_within(*budget_.finish_in),
                           in_days(*budget_.finish_in));
      });
  }

  void rent() {
    const auto cost_of = [&](const RunForecast& run) {
      return costs(forecast_, run,
                   &run == &forecast_.rented ? budget_.prices.gpu_hour : budget_.prices.spot);
    };
    row("cost", [&](const RunForecast& run) {
      const Costs cost = cost_of(run);
      return cost.rent ? significant(*cost.rent) + ' ' + budget_.prices.currency : std::string{"-"};
    });
    row("", [&](const RunForecast& run) {
      const Costs cost = cost_of(run);
      return cost.rent ? fmt::format("({} to {})", significant(cost.low), significant(cost.high))
                       : std::string{};
    });
  }

  void goodput(const char* title, const RunForecast& run) {
    page_.heading(title, "work / wall time");
    page_.line(fmt::format("  {:<16}{:>14}{:>28}{:>14}", "", "closed form",
                           fmt::format("{} runs, seed {}", grouped(budget_.runs), budget_.seed),
                           "difference"));
    const double error = run.wall.standard_error / run.wall.mean;
    const Seconds difference = run.wall.mean - run.expected;
    page_.line(fmt::format(
        "  {:<16}{:>14.3f}{:>28}{:>+14.3f}  ({})", "days", in_days(run.expected),
        fmt::format("{:.3f} +- {:.3f}", in_days(run.wall.mean), in_days(run.wall.standard_error)),
        in_days(difference), in_errors(difference, run.wall.standard_error)));
    page_.line(fmt::format(
        "  {:<16}{:>14.3f}{:>28}{:>+14.3f}", "goodput in %", 100 * run.expected_goodput(),
        fmt::format("{:.3f} +- {:.3f}", 100 * run.goodput(), 100 * run.goodput() * error),
        100 * (run.goodput() - run.expected_goodput())));
    page_.line(
        fmt::format("  days by quantile, by failures alone: 5 % {:.2f}, 50 % {:.2f}, 95 % {:.2f}",
                    in_days(run.wall.quantile(0.05)), in_days(run.wall.quantile(0.5)),
                    in_days(run.wall.quantile(0.95))));
  }

  static std::string in_errors(Seconds difference, Seconds error) {
    return error > Seconds{0} ? fmt::format("{:+.1f} standard errors", difference / error)
                              : "exact";
  }

  void time_spent() {
    page_.heading("Where the time goes", "mean days, share of the wall time");
    const auto line = [&](const char* name, auto time) {
      row(name, [&](const RunForecast& run) {
        const Seconds spent = time(run);
        return fmt::format("{:>8.2f}  {:>6.2f} %", in_days(spent), 100 * (spent / run.wall.mean));
      });
    };
    line("work", [](const RunForecast& run) { return run.model.work; });
    line(budget_.corruption.gpu == never ? "checkpoints" : "saved, checked",
         [](const RunForecast& run) {
           return run.model.part_stall() * static_cast<double>(run.model.parts()) + run.model.lag;
         });
    line("done again", [](const RunForecast& run) { return run.lost; });
    line("down", [](const RunForecast& run) { return run.down; });
    if (budget_.spares.nodes)
      line("  for a node", [](const RunForecast& run) { return run.waited; });
    if (budget_.slow_node.every != never || budget_.flaps.node != never ||
        budget_.elastic.most_away > 0)
      line("slower", [](const RunForecast& run) { return run.slow; });
    row("failures", [](const RunForecast& run) {
      return fmt::format("{} ({} between)", significant(run.failures),
                         amount(run.model.failures.every));
    });
    if (has_spot())
      row("preemptions", [](const RunForecast& run) {
        return fmt::format("{} ({} between)", significant(run.preemptions),
                           amount(run.model.preemptions.every));
      });
    if (budget_.flaps.node != never)
      page_.line(fmt::format("  {:<16}{} between, {} each, {:.2g} % of them end the job",
                             "link flaps", amount(budget_.flaps.node / forecast_.nodes),
                             amount(budget_.flaps.stall), 100 * budget_.flaps.fails));
    row("restart", [](const RunForecast& run) { return amount(run.model.failures.restart); });
  }

  void checkpoints() {
    const CheckpointTimes& times = forecast_.times;
    page_.heading("Checkpoints", budget_.checkpoint.asynchronous ? "asynchronous" : "blocking");
    const bool given = budget_.checkpoint.bytes.has_value();
    page_.line(fmt::format("  {}{}, at most {} per GPU",
                           to_text(budget_.checkpoint.bytes.value_or(forecast_.checkpoint.total)),
                           given ? "" : " (weights and optimizer states of the plan)",
                           to_text(forecast_.checkpoint.per_gpu)));
    page_.line(fmt::format("  written in {}, training halts {}, loaded in {}", amount(times.write),
                           amount(times.stall), amount(times.load)));
    const Seconds step{to_seconds(forecast_.step)};
    row("every", [&](const RunForecast& run) {
      return fmt::format("{} of work ({} steps)", amount(run.model.segment()),
                         significant(run.model.segment() / step));
    });
    row("in all", [](const RunForecast& run) { return grouped(run.model.segments); });
    copies();
    spares();
  }

  void copies() {
    const CopyTimes& copy = forecast_.copies;
    if (copy.every == 0) return;
    page_.line(
        fmt::format("  in memory every {} step{}: training halts {}, usable {} later, "
                    "loaded in {}",
                    grouped(copy.every), copy.every == 1 ? "" : "s", amount(copy.stall),
                    amount(copy.lag), amount(copy.load)));
  }

  void spares() {
    if (!budget_.spares.nodes) return;
    page_.line(fmt::format("  {} spare node{}, {:.2f} % of those of the job",
                           grouped(forecast_.spare_nodes), forecast_.spare_nodes == 1 ? "" : "s",
                           100.0 * forecast_.spare_nodes / forecast_.nodes));
    for (std::size_t i = 0; i < forecast_.elastic_speeds.size(); ++i)
      page_.line(fmt::format("  with {} node{} too few: {:.2f} % of the speed", i + 1,
                             i == 0 ? "" : "s", 100 * forecast_.elastic_speeds[i]));
  }

  void helps() {
    if (answer_.helps.empty()) return;
    page_.heading("What would help the goodput most", "each alone, in closed form");
    page_.line(fmt::format("  {:<38}{:>12}{:>14}", "", "goodput", "GPU-hours"));
    const double now = 100 * forecast_.rented.expected_goodput();
    for (const Help& help : answer_.helps)
      page_.line(fmt::format("  {:<38}{:>10.2f} %{:>12.2f} %  ({:+.2f})", help.what,
                             100 * help.goodput, 100 * help.gpu_hours, 100 * help.goodput - now));
  }

  void finish(const FinishAnswer& answer) {
    page_.heading(fmt::format("How many GPUs finish in {:g} days with probability {:g}",
                              in_days(*budget_.finish_in), budget_.confidence),
                  budget_.scaling == Scaling::fixed_batch ? "the batch is fixed"
                                                          : "the batch per replica is fixed");
    page_.line(fmt::format("  {:>8}{:>7}{:>9}{:>11}{:>11}{:>12}{:>10}  {}", "GPUs", "dp", "batch",
                           "step", "mean days", "at quantile", "in time", "cost"));
    for (std::size_t i = 0; i < answer.looked_at.size(); ++i)
      candidate(answer.looked_at[i], static_cast<int>(i) == answer.chosen);
    if (answer.chosen >= 0) return;
    for (const std::string& line : wrapped("none: " + answer.why_not, page_width - 2))
      page_.line("  " + line);
  }

  void candidate(const FinishCandidate& candidate, bool chosen) {
    std::string text = fmt::format("  {:>8}{:>7}{:>9}", grouped(candidate.gpus),
                                   candidate.data_parallel, grouped(candidate.global_batch));
    if (!candidate.refused.empty()) {
      page_.line(text + "  " + candidate.refused);
      return;
    }
    const RunForecast& run = candidate.forecast.rented;
    const Costs cost = costs(candidate.forecast, run, budget_.prices.gpu_hour);
    text += fmt::format("{:>11}{:>11.2f}{:>12.2f}{:>8.2f} %", precise(candidate.forecast.step),
                        in_days(run.wall.mean), in_days(run.quantile(budget_.confidence)),
                        100 * candidate.probability);
    if (cost.rent) text += fmt::format("  {} {}", significant(*cost.rent), budget_.prices.currency);
    page_.line(chosen ? page_.paint("1", text + "  <- the fewest") : text);
  }

  void assumptions() {
    page_.heading("Assumptions", "keys of the section `budget`");
    for (const Assumption& assumption : budget_.assumptions) {
      const std::string head = fmt::format("  {:<30}{:<16} ", assumption.key, assumption.value);
      constexpr int indent = 49;
      bool first = true;
      for (const std::string& line : wrapped(assumption.source, page_width - indent)) {
        page_.line((first ? head : std::string(indent, ' ')) + page_.paint("2", line));
        first = false;
      }
    }
    page_.line("  the step: " + page_.paint("2", "`stepcast simulate` of the same scenario"));
  }

  Page page_;
  const BudgetAnswer& answer_;
  const BudgetForecast& forecast_;
  const Budget& budget_;
};

}  // namespace

std::string budget_table(const BudgetAnswer& answer, TextStyle style) {
  return Table{answer, style}.text();
}

}  // namespace sim
