// Threads and ranks that work together; the ranks are threads with letter boxes here.
#include "sim/distribute/worker_pool.hpp"

#include <array>
#include <atomic>
#include <deque>
#include <set>

#include "sim/base/input_error.hpp"
#include "tests/catch.hpp"

using namespace sim;

namespace {

struct Aborted {
  int code;
};

// Letter boxes of all ranks.
struct Post {
  std::mutex mutex;
  std::array<std::deque<Message>, 8> boxes;
};

class ThreadTeam final : public Communicator {
 public:
  ThreadTeam(Post& post, int rank, int size) : post_{post}, rank_{rank}, size_{size} {}
  int rank() const override { return rank_; }
  int size() const override { return size_; }
  int local_size() const override { return size_; }
  std::string host() const override { return "host" + std::to_string(rank_); }
  void send(int to, const std::string& text) override {
    const std::scoped_lock lock{post_.mutex};
    post_.boxes.at(static_cast<std::size_t>(to)).push_back({rank_, text});
  }
  std::optional<Message> poll() override {
    const std::scoped_lock lock{post_.mutex};
    auto& box = post_.boxes.at(static_cast<std::size_t>(rank_));
    if (box.empty()) return std::nullopt;
    Message message = std::move(box.front());
    box.pop_front();
    return message;
  }
  [[noreturn]] void abort(int code) override { throw Aborted{code}; }

 private:
  Post& post_;
  int rank_, size_;
};

std::string square(std::uint64_t unit) {
  return std::to_string(unit * unit);
}

// Ranks 1 .. size - 1, which end when rank 0 sends them home.
class Helpers {
 public:
  Helpers(Post& post, int size, const Task& work, const std::string& digest = "same") {
    for (int rank = 1; rank < size; ++rank)
      threads_.emplace_back([&post, rank, size, work, digest] {
        ThreadTeam communicator{post, rank, size};
        serve({.load =
                   [&] {
                     if (digest == "bad") throw std::runtime_error("cannot read it");
                     return digest;
                   },
               .work = work,
               .threads = 2,
               .failure =
                   [] {
                     try {
                       throw;
                     } catch (const std::exception& error) {
                       return std::pair{3, std::string{error.what()}};
                     }
                   }},
              communicator);
      });
  }

 private:
  std::vector<std::jthread> threads_;
};

std::set<std::string> answers_to(WorkerPool& workers, std::uint64_t units) {
  std::set<std::string> answers;
  std::uint64_t next = 0;
  while (answers.size() < units) {
    for (; next < units && workers.is_free(); ++next)
      workers.submit(next);
    if (const auto answered = workers.next(std::chrono::milliseconds{20})) {
      CHECK(answered->answer == square(answered->unit));
      answers.insert(answered->answer);
    }
  }
  CHECK(workers.in_flight() == 0);
  return answers;
}

}  // namespace

TEST_CASE("a worker pool of threads answers every unit once", "[distribute]") {
  std::atomic<int> calls{0};
  WorkerPool workers{[&](std::uint64_t unit) {
                       ++calls;
                       return square(unit);
                     },
                     3, "", nullptr};
  CHECK(workers.threads() == 3);
  CHECK(answers_to(workers, 50).size() == 50);
  CHECK(calls == 50);
  CHECK_FALSE(workers.next(std::chrono::milliseconds{1}));
}

TEST_CASE("ranks share the work and go home when they are told", "[distribute]") {
  Post post;
  std::mutex mutex;
  std::set<std::thread::id> ids;
  const Task work = [&](std::uint64_t unit) {
    const std::scoped_lock lock{mutex};
    ids.insert(std::this_thread::get_id());
    return square(unit);
  };
  const Helpers helpers{post, 4, work};
  ThreadTeam communicator{post, 0, 4};
  for (int rank = 1; rank < 4; ++rank)
    communicator.send(rank, "go");
  WorkerPool workers{work, 1, "same", &communicator};
  CHECK(workers.ranks() == 4);
  CHECK(workers.threads() == 7);
  CHECK(answers_to(workers, 200).size() == 200);
  CHECK(ids.size() > 1);
  workers.close();
}

TEST_CASE("a rank that is at work when all ends is waited for", "[distribute]") {
  Post post;
  const Helpers helpers{post, 3, square};
  ThreadTeam communicator{post, 0, 3};
  for (int rank = 1; rank < 3; ++rank)
    communicator.send(rank, "go");
  WorkerPool workers{square, 1, "same", &communicator};
  for (std::uint64_t unit = 0; workers.is_free(); ++unit)
    workers.submit(unit);
  workers.close();  // with answers under way
}

TEST_CASE("ranks whose leader has refused the input go home", "[distribute]") {
  Post post;
  const Helpers helpers{post, 3, square};
  ThreadTeam communicator{post, 0, 3};
  for (int rank = 1; rank < 3; ++rank)
    communicator.send(rank, "end");
}

TEST_CASE("what fails on a rank fails on the leader, with its name and code", "[distribute]") {
  Post post;
  const Task fails = [](std::uint64_t) -> std::string { throw std::logic_error("it broke"); };
  const Helpers helpers{post, 2, fails};
  ThreadTeam communicator{post, 0, 2};
  communicator.send(1, "go");
  WorkerPool workers{square, 1, "same", &communicator};
  std::string said;
  int code = 0;
  try {
    for (std::uint64_t unit = 0; said.empty(); ++unit) {
      while (workers.is_free())
        workers.submit(unit);
      workers.next(std::chrono::milliseconds{20});
    }
  } catch (const RankFailed& failed) {
    said = failed.what();
    code = failed.code();
  }
  CHECK(said == "rank 1 on host1: it broke");
  CHECK(code == 3);
  communicator.send(1, "stop");
}

TEST_CASE("what fails here is thrown here", "[distribute]") {
  WorkerPool workers{[](std::uint64_t) -> std::string { throw std::logic_error("it broke"); }, 2,
                     "", nullptr};
  workers.submit(0);
  REQUIRE_THROWS_WITH(workers.next(std::chrono::seconds{60}), "it broke");
}

TEST_CASE("a rank that reads other input, or none, is named", "[distribute]") {
  for (const std::string digest : {"other", "bad"}) {
    Post post;
    const Helpers helpers{post, 2, square, digest};
    ThreadTeam communicator{post, 0, 2};
    communicator.send(1, "go");
    if (digest == "bad")
      REQUIRE_THROWS_WITH((WorkerPool{square, 1, "same", &communicator}), "rank 1: cannot read it");
    else
      CHECK_THROWS_AS((WorkerPool{square, 1, "same", &communicator}), InputError);
    communicator.send(1, "stop");
  }
}
