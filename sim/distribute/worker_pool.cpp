#include "sim/distribute/worker_pool.hpp"

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

Message wait_for_message(Communicator& communicator) {
  while (true) {
    if (std::optional<Message> message = communicator.poll()) return *std::move(message);
    std::this_thread::sleep_for(between_polls);
  }
}

[[noreturn]] void throw_failure(int rank, const std::string& host, std::string_view text) {
  const auto code = static_cast<int>(take_number(text));
  throw RankFailed{code,
                   fmt::format("rank {}{}{}: {}", rank, host.empty() ? "" : " on ", host, text)};
}

}  // namespace

WorkerPool::WorkerPool(Task work, int threads, const std::string& digest,
                       Communicator* communicator)
    : pool_{std::move(work), threads}, communicator_{communicator}, threads_{threads} {
  if (communicator_) wait_until_ready(digest);
}

void WorkerPool::wait_until_ready(const std::string& digest) {
  others_.resize(static_cast<std::size_t>(communicator_->size()));
  for (int missing = communicator_->size() - 1; missing > 0; --missing) {
    const Message message = wait_for_message(*communicator_);
    std::string_view text = message.text;
    const std::string_view word = take_word(text);
    if (word == "failed") throw_failure(message.from, {}, text);
    SIM_CHECK(word == "ready", message.from, message.text);
    Rank& rank = others_[static_cast<std::size_t>(message.from)];
    rank.threads = static_cast<int>(take_number(text));
    const std::string_view theirs = take_word(text);
    rank.host = text;
    if (theirs != digest)
      throw InputError{SourcePosition{fmt::format("rank {} on {}", message.from, rank.host), 0, 0},
                       fmt::format("reads other files or is another version than rank 0 on {}",
                                   communicator_->host())};
    threads_ += rank.threads;
  }
}

int WorkerPool::in_flight() const {
  int sum = pool_.running();
  for (const Rank& rank : others_)
    sum += rank.running;
  return sum;
}

void WorkerPool::submit(std::uint64_t unit) {
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
  communicator_->send(static_cast<int>(freest - others_.data()), fmt::format("do {}", unit));
}

std::optional<Answered> WorkerPool::from_others() {
  const std::optional<Message> message = communicator_->poll();
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

std::optional<Answered> WorkerPool::next(std::chrono::milliseconds wait) {
  if (!communicator_) return pool_.take(wait);
  const auto end = std::chrono::steady_clock::now() + wait;
  do {
    if (std::optional<Answered> answered = from_others()) return answered;
    if (std::optional<Answered> answered = pool_.take(between_polls)) return answered;
  } while (std::chrono::steady_clock::now() < end);
  return std::nullopt;
}

void WorkerPool::close() {
  if (!communicator_) return;
  int present = 0;
  for (int rank = 1; rank < communicator_->size(); ++rank, ++present)
    communicator_->send(rank, "stop");
  // Messages that they still send must be received before MPI ends.
  while (present > 0)
    if (wait_for_message(*communicator_).text == "bye") --present;
}

namespace {

// False: rank 0 has refused the input.
bool told_to_go(Communicator& communicator) {
  return wait_for_message(communicator).text == "go";
}

void wait_for_stop(Communicator& communicator) {
  while (wait_for_message(communicator).text != "stop") {
  }
  communicator.send(0, "bye");
}

void work_until_stop(const Service& service, const std::string& digest,
                     Communicator& communicator) {
  ThreadPool pool{service.work, service.threads};
  communicator.send(0, fmt::format("ready {} {} {}", service.threads, digest, communicator.host()));
  while (true) {
    while (const std::optional<Message> message = communicator.poll()) {
      std::string_view text = message->text;
      if (take_word(text) == "stop") return;
      pool.submit(take_number(text));
    }
    if (const std::optional<Answered> answered = pool.take(between_polls))
      communicator.send(0, fmt::format("did {} {}", answered->unit, answered->answer));
  }
}

}  // namespace

void serve(const Service& service, Communicator& communicator) {
  if (!told_to_go(communicator)) return;
  try {
    work_until_stop(service, service.load(), communicator);
  } catch (const std::exception&) {
    const auto [code, text] = service.failure();
    communicator.send(0, fmt::format("failed {} {}", code, text));
    return wait_for_stop(communicator);
  }
  communicator.send(0, "bye");
}

}  // namespace sim
