#include "sim/distribute/crew.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <thread>

#include "sim/base/check.hpp"
#include "sim/base/input_error.hpp"

namespace sim {
namespace {

// How long a message may lie before it is looked at: far below what a unit takes, and no burden on
// the core that waits.
constexpr std::chrono::microseconds between_polls{500};

// "did 17 {...}": the first word, then the rest.
std::string_view take_word(std::string_view& text) {
  const std::size_t space = std::min(text.find(' '), text.size());
  const std::string_view word = text.substr(0, space);
  text.remove_prefix(std::min(space + 1, text.size()));
  return word;
}

std::uint64_t take_number(std::string_view& text) {
  const std::string_view word = take_word(text);
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value);
  SIM_CHECK(error == std::errc{} && end == word.data() + word.size(), word);
  return value;
}

Message wait_for_message(Team& team) {
  while (true) {
    if (std::optional<Message> message = team.poll()) return *std::move(message);
    std::this_thread::sleep_for(between_polls);
  }
}

[[noreturn]] void throw_failure(int rank, const std::string& host, std::string_view text) {
  const auto code = static_cast<int>(take_number(text));
  throw RankFailed{code,
                   fmt::format("rank {}{}{}: {}", rank, host.empty() ? "" : " on ", host, text)};
}

}  // namespace

Crew::Crew(Work work, int threads, const std::string& digest, Team* team)
    : pool_{std::move(work), threads}, team_{team}, threads_{threads} {
  if (team_) wait_until_ready(digest);
}

void Crew::wait_until_ready(const std::string& digest) {
  others_.resize(static_cast<std::size_t>(team_->size()));
  for (int missing = team_->size() - 1; missing > 0; --missing) {
    const Message message = wait_for_message(*team_);
    std::string_view text = message.text;
    const std::string_view word = take_word(text);
    if (word == "failed") throw_failure(message.from, {}, text);
    SIM_CHECK(word == "ready", message.from, message.text);
    Rank& rank = others_[static_cast<std::size_t>(message.from)];
    rank.threads = static_cast<int>(take_number(text));
    const std::string_view theirs = take_word(text);
    rank.host = text;
    if (theirs != digest)
      throw InputError{
          SourcePosition{fmt::format("rank {} on {}", message.from, rank.host), 0, 0},
          fmt::format("reads other files or is another version than rank 0 on {}", team_->host())};
    threads_ += rank.threads;
  }
}

int Crew::in_flight() const {
  int sum = pool_.running();
  for (const Rank& rank : others_)
    sum += rank.running;
  return sum;
}

void Crew::submit(std::uint64_t unit) {
  SIM_CHECK(is_free());
  // Whoever has most threads without work; this process where that is equal.
  Rank* freest = nullptr;
  int most = pool_.threads() - pool_.running();
  for (Rank& rank : others_)
    if (rank.threads - rank.running > most) {
      freest = &rank;
      most = rank.threads - rank.running;
    }
  if (!freest) return pool_.submit(unit);
  ++freest->running;
  team_->send(static_cast<int>(freest - others_.data()), fmt::format("do {}", unit));
}

std::optional<Answered> Crew::from_others() {
  const std::optional<Message> message = team_->poll();
  if (!message) return std::nullopt;
  Rank& rank = others_[static_cast<std::size_t>(message->from)];
  std::string_view text = message->text;
  const std::string_view word = take_word(text);
  if (word == "failed") throw_failure(message->from, rank.host, text);
  SIM_CHECK(word == "did", message->from, message->text);
  --rank.running;
  const std::uint64_t unit = take_number(text);
  return Answered{unit, std::string{text}};
}

std::optional<Answered> Crew::next(std::chrono::milliseconds wait) {
  if (!team_) return pool_.take(wait);
  const auto end = std::chrono::steady_clock::now() + wait;
  do {
    if (std::optional<Answered> answered = from_others()) return answered;
    if (std::optional<Answered> answered = pool_.take(between_polls)) return answered;
  } while (std::chrono::steady_clock::now() < end);
  return std::nullopt;
}

void Crew::close() {
  if (!team_) return;
  int present = 0;
  for (int rank = 1; rank < team_->size(); ++rank, ++present)
    team_->send(rank, "stop");
  // What they still send must be received before MPI ends.
  while (present > 0)
    if (wait_for_message(*team_).text == "bye") --present;
}

namespace {

// False: rank 0 has refused the input.
bool told_to_go(Team& team) {
  return wait_for_message(team).text == "go";
}

void wait_for_stop(Team& team) {
  while (wait_for_message(team).text != "stop") {
  }
  team.send(0, "bye");
}

void work_until_stop(const Service& service, const std::string& digest, Team& team) {
  Pool pool{service.work, service.threads};
  team.send(0, fmt::format("ready {} {} {}", service.threads, digest, team.host()));
  while (true) {
    while (const std::optional<Message> message = team.poll()) {
      std::string_view text = message->text;
      if (take_word(text) == "stop") return;
      pool.submit(take_number(text));
    }
    if (const std::optional<Answered> answered = pool.take(between_polls))
      team.send(0, fmt::format("did {} {}", answered->unit, answered->answer));
  }
}

}  // namespace

void serve(const Service& service, Team& team) {
  if (!told_to_go(team)) return;
  try {
    work_until_stop(service, service.load(), team);
  } catch (const std::exception&) {
    const auto [code, text] = service.failure();
    team.send(0, fmt::format("failed {} {}", code, text));
    return wait_for_stop(team);
  }
  team.send(0, "bye");
}

}  // namespace sim
