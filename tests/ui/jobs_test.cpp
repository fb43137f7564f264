// Work beside the window: the newest request wins, whatever the others do.
#include <QCoreApplication>
#include <atomic>
#include <random>
#include <stdexcept>
#include <thread>

#include "tests/catch.hpp"
#include "tests/ui/wait.hpp"
#include "ui/core/background_job.hpp"

namespace ui {
namespace {

// Until it is told to stop.
void work_forever(const sim::Control& control) {
  while (!control.stopped())
    std::this_thread::yield();
  sim::throw_if_stopped(control);
}

}  // namespace

TEST_CASE("Of many requests the last one answers, on the window's thread") {
  BackgroundJob job;
  const std::thread::id window = std::this_thread::get_id();
  std::vector<int> answers;
  constexpr int requests = 300;
  for (int i = 1; i <= requests; ++i) {
    job.run([&, i](const sim::Control& control) -> BackgroundJob::Answer {
      if (i < requests) work_forever(control);
      std::vector<int> made(1000, i);  // what both threads touch, one after the other
      return [&, made] {
        CHECK(std::this_thread::get_id() == window);
        answers.push_back(made.back());
      };
    });
    if (i % 7 == 0) QCoreApplication::processEvents();
  }
  REQUIRE(test::until([&] { return !job.busy(); }));
  CHECK(answers == std::vector<int>{requests});
}

TEST_CASE("What was cancelled does not answer; what throws is told, and the job goes on") {
  BackgroundJob job;
  int answered = 0, failed = 0;
  QObject::connect(&job, &BackgroundJob::failed, &job, [&](const QString& why) {
    CHECK(why == "no");
    ++failed;
  });
  job.run([&](const sim::Control&) { return BackgroundJob::Answer{[&] { ++answered; }}; });
  job.cancel();
  CHECK_FALSE(job.busy());
  job.run([](const sim::Control&) -> BackgroundJob::Answer { throw std::runtime_error{"no"}; });
  REQUIRE(test::until([&] { return !job.busy(); }));
  job.run([&](const sim::Control&) { return BackgroundJob::Answer{[&] { ++answered; }}; });
  REQUIRE(test::until([&] { return !job.busy(); }));
  CHECK(failed == 1);
  CHECK(answered == 1);
}

TEST_CASE("A job that is closed while it works stops its work, at any moment") {
  std::mt19937 random{7};
  for (int i = 0; i < 200; ++i) {
    std::atomic<int> at_work{0};
    {
      BackgroundJob job;
      job.run([&](const sim::Control& control) -> BackgroundJob::Answer {
        struct Present {
          std::atomic<int>& at_work;
          explicit Present(std::atomic<int>& count) : at_work{count} { ++at_work; }
          ~Present() { --at_work; }
        } const present{at_work};
        work_forever(control);
        return {};
      });
      for (auto n = random() % 2000; n > 0; --n)
        std::this_thread::yield();
      if (random() % 2 == 0)
        job.run([](const sim::Control&) {
          return BackgroundJob::Answer{[] { FAIL("answered though it is closed"); }};
        });
    }
    CHECK(at_work == 0);
    QCoreApplication::processEvents();
  }
}

}  // namespace ui
