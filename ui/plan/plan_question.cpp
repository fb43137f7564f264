#include "ui/plan/plan_question.hpp"

#include <fmt/format.h>

#include <QFile>
#include <charconv>
#include <stdexcept>

#include "sim/config/data_files.hpp"
#include "sim/framework/presets/preset.hpp"
#include "ui/core/shell_word.hpp"
#include "ui/core/words.hpp"

namespace ui {
namespace {

constexpr int most_gpus_asked = 1 << 17;
constexpr double least_confidence = 0.01, most_confidence = 0.9999;

template <class Number>
Number number(const std::string& text, Number least, Number most) {
  Number value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size() ||
      !(value >= least && value <= most))
    throw std::invalid_argument{fmt::format("expected a number from {} to {}", least, most)};
  return value;
}

sim::Money money(const std::string& text) {
  const sim::Parsed<sim::Money> parsed = sim::parse_money(text);
  if (const auto* wrong = std::get_if<sim::QuantityError>(&parsed))
    throw std::invalid_argument{wrong->problem};
  if (!(std::get<sim::Money>(parsed).amount > 0))
    throw std::invalid_argument{"expected an amount above 0, as 2.50 USD"};
  return std::get<sim::Money>(parsed);
}

void check_framework(const std::string& name) {
  if (sim::from_word<sim::PresetName>(name)) return;
  std::string allowed;
  for (const auto& known : words_of(sim::PresetName{}))
    allowed += fmt::format("{}{}", allowed.empty() ? "" : ", ", known.text);
  throw std::invalid_argument{fmt::format("'{}' is none of {}", name, allowed)};
}

class QuestionReader {
 public:
  explicit QuestionReader(const PlanQuestion& question) : question_{question} {}

  ReadQuestion run() {
    read_job();
    read_clusters();
    read_limits();
    return std::move(read_);
  }

 private:
  void read_job() {
    sim::CapacityWish& wish = read_.wish;
    sim::Workload& job = wish.workload;
    take(PlanField::batch, [&](const std::string& text) {
      job.global_batch = number<std::int64_t>(text, 1, INT32_MAX);
    });
    take(PlanField::sequence, [&](const std::string& text) {
      job.sequence_length = number<std::int64_t>(text, 1, INT32_MAX);
    });
    if (question_.text(PlanField::model).empty())
      read_scenario();
    else
      read_model();
    take(PlanField::framework, [&](const std::string& text) {
      check_framework(text);
      job.overrides.push_back("framework.name=" + text);
    });
  }

  void read_scenario() {
    sim::CapacityWish& wish = read_.wish;
    if (question_.yaml.empty())
      return problem(PlanField::model, "name a model, or open a scenario (Ctrl+O)");
    wish.scenario = question_.yaml;
    wish.path = question_.path;
    wish.workload.overrides = question_.overrides;
    const auto add = [&](const char* key, std::int64_t value) {
      if (value > 0) wish.workload.overrides.push_back(fmt::format("layout.{}={}", key, value));
    };
    add("global_batch", wish.workload.global_batch);
    add("sequence_length", wish.workload.sequence_length);
  }

  void read_model() {
    take(PlanField::model, [&](const std::string& name) {
      sim::find_data_file("models", name);
      read_.wish.workload.model = name;
    });
    if (question_.text(PlanField::batch).empty())
      problem(PlanField::batch, "is needed with a model: sequences per step");
  }

  void read_clusters() {
    sim::CapacityWish& wish = read_.wish;
    for (const ClusterAsked& cluster : question_.clusters) {
      wish.clusters.push_back(cluster.name);
      if (cluster.price.empty()) continue;
      take(PlanField::clusters, cluster.name + ": ", cluster.price, [&](const std::string& text) {
        wish.prices.gpu_hour[cluster.name] = in_one_currency(money(text));
      });
    }
    take(PlanField::kwh,
         [&](const std::string& text) { wish.prices.kwh = in_one_currency(money(text)); });
    if (wish.clusters.empty()) problem(PlanField::clusters, "tick at least one cluster");
    for (const ClusterAsked& cluster : question_.clusters)
      if (!wish.prices.gpu_hour.empty() && cluster.price.empty())
        problem(PlanField::clusters,
                fmt::format("{} has no price, and others have: give one, or none", cluster.name));
  }

  double in_one_currency(const sim::Money& price) {
    std::string& currency = read_.wish.prices.currency;
    if (currency.empty()) currency = price.currency;
    if (currency != price.currency)
      throw std::invalid_argument{fmt::format(
          "is in {}, and others are in {}: one currency is needed", price.currency, currency)};
    return price.amount;
  }

  void read_limits() {
    sim::CapacityWish& wish = read_.wish;
    take(PlanField::tokens,
         [&](const std::string& text) { wish.tokens = sim::parse_tokens(text); });
    take(PlanField::deadline,
         [&](const std::string& text) { wish.deadline = sim::parse_deadline(text); });
    take(PlanField::budget, [&](const std::string& text) {
      const sim::Money most = money(text);
      if (wish.prices.gpu_hour.empty())
        throw std::invalid_argument{"needs the price of a GPU-hour of each cluster"};
      wish.money = in_one_currency(most);
    });
    take(PlanField::confidence, [&](const std::string& text) {
      wish.confidence = number<double>(text, least_confidence, most_confidence);
    });
    take(PlanField::most_gpus,
         [&](const std::string& text) { wish.most_gpus = number<int>(text, 1, most_gpus_asked); });
    wish.offload = question_.offload;
    wish.only_fewest = question_.text(PlanField::tokens).empty();
    for (const PlanField field : {PlanField::deadline, PlanField::budget})
      if (wish.only_fewest && !question_.text(field).empty())
        problem(PlanField::tokens, "are needed with a deadline or a budget, as 2e12");
  }

  template <class Read>
  void take(PlanField field, const Read& read) {
    take(field, {}, question_.text(field), read);
  }
  template <class Read>
  void take(PlanField field, const std::string& of, const std::string& text, const Read& read) {
    if (text.empty()) return;
    try {
      read(text);
    } catch (const sim::InputError& error) {
      problem(field, of + error.problems().front().what);
    } catch (const std::invalid_argument& error) {
      problem(field, of + error.what());
    }
  }
  void problem(PlanField field, std::string what) {
    read_.problems.push_back({field, std::move(what)});
  }

  const PlanQuestion& question_;
  ReadQuestion read_;
};

std::string said(std::string_view option, const std::string& value) {
  return value.empty() ? std::string{}
                       : fmt::format(" {} {}", option, shell_word(to_qstring(value)).toStdString());
}

bool is_of_its_file(const PlanQuestion& question) {
  QFile file{to_qstring(question.path)};
  return file.open(QIODevice::ReadOnly) && file.readAll().toStdString() == question.yaml;
}

// A line that writes the file of prices; empty: there are none.
std::string prices_line(const PlanQuestion& question) {
  std::string hours;
  for (const ClusterAsked& cluster : question.clusters)
    if (!cluster.price.empty())
      hours += fmt::format("{}\"{}\": {}", hours.empty() ? "" : ", ", cluster.name, cluster.price);
  const std::string& kwh = question.text(PlanField::kwh);
  if (hours.empty() && kwh.empty()) return {};
  std::string line =
      "printf '%s\\n' " + shell_word(to_qstring("gpu_hour: {" + hours + "}")).toStdString();
  if (!kwh.empty()) line += ' ' + shell_word(to_qstring("kwh: " + kwh)).toStdString();
  return line + " >prices.yaml\n";
}

}  // namespace

ReadQuestion read_question(const PlanQuestion& question) {
  return QuestionReader{question}.run();
}

PlanField field_of(const sim::Problem& problem) {
  const std::string text = problem.where.file + ' ' + problem.what + ' ' + problem.source_line;
  const auto names = [&](const char* word) { return text.find(word) != std::string::npos; };
  if (names("global_batch")) return PlanField::batch;
  if (names("sequence_length") || names("per sequence")) return PlanField::sequence;
  if (names("framework")) return PlanField::framework;
  if (names("model")) return PlanField::model;
  return PlanField::clusters;
}

std::string commands_of(const PlanQuestion& question) {
  const bool of_model = !question.text(PlanField::model).empty();
  if (!of_model && !is_of_its_file(question)) return {};
  std::string command = "stepcast plan";
  const std::string &batch = question.text(PlanField::batch),
                    &sequence = question.text(PlanField::sequence);
  if (of_model) {
    command += said("--model", question.text(PlanField::model)) + said("--batch", batch) +
               said("--sequence", sequence);
  } else {
    command += ' ' + shell_word(to_qstring(question.path)).toStdString();
    for (const std::string& one : question.overrides)
      command += said("--set", one);
    if (!batch.empty()) command += said("--set", "layout.global_batch=" + batch);
    if (!sequence.empty()) command += said("--set", "layout.sequence_length=" + sequence);
  }
  command += said("--framework", question.text(PlanField::framework));
  std::string names;
  for (const ClusterAsked& cluster : question.clusters)
    names += (names.empty() ? "" : ",") + cluster.name;
  command += said("--clusters", names);
  const std::string& tokens = question.text(PlanField::tokens);
  command += tokens.empty() ? " --fewest-gpus" : said("--tokens", tokens);
  command += said("--deadline", question.text(PlanField::deadline));
  const std::string prices = prices_line(question);
  if (!prices.empty()) command += " --prices prices.yaml";
  command += said("--budget", question.text(PlanField::budget)) +
             said("--confidence", question.text(PlanField::confidence)) +
             said("--max-gpus", question.text(PlanField::most_gpus));
  if (question.offload) command += " --offload";
  return prices + command;
}

}  // namespace ui
