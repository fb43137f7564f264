// Kernels of a trace and operators of a forecast: anchors by shape and bytes, the rest in order.
#include "sim/timeline/traced.hpp"
#include "tests/catch.hpp"

namespace {

using namespace sim;
using namespace std::chrono_literals;

class Forecast {
 public:
  Forecast() {
    record_.programs.emplace_back();
    record_.tracks.emplace_back();
  }
  Forecast& gemm(std::int64_t m, std::int64_t n, std::int64_t k) {
    Kernel kernel;
    kernel.kind = OpKind::gemm;
    kernel.m = m;
    kernel.n = n;
    kernel.k = k;
    return add(kernel);
  }
  Forecast& other(OpKind kind, int launches = 1) {
    Kernel kernel;
    kernel.kind = kind;
    kernel.launches = launches;
    return add(kernel);
  }
  Forecast& all_reduce(std::int64_t bytes) {
    Program& program = record_.programs[0];
    program.collectives.push_back({.kind = CollectiveKind::all_reduce, .bytes = Bytes{bytes}});
    return push(OpKind::collective, Stream::data_comm, program.collectives.size() - 1);
  }
  const Record& record() const { return record_; }

 private:
  Forecast& add(const Kernel& kernel) {
    record_.programs[0].kernels.push_back(kernel);
    return push(kernel.kind, Stream::compute, record_.programs[0].kernels.size() - 1);
  }
  Forecast& push(OpKind kind, Stream stream, std::size_t work) {
    Program& program = record_.programs[0];
    program.kind.push_back(kind);
    program.stream.push_back(stream);
    program.pass.push_back(Pass::forward);
    program.work.push_back(static_cast<std::uint32_t>(work));
    program.label.push_back({});
    return *this;
  }
  Record record_;
};

// Kernels of 1 us, one behind the other.
class Trace {
 public:
  Trace() { timeline_.ranks.emplace_back(); }
  Trace& gemm(std::int64_t m, std::int64_t n, std::int64_t k, std::int64_t issued_by = -1) {
    TracedKernel kernel;
    kernel.kind = OpKind::gemm;
    kernel.m = m;
    kernel.n = n;
    kernel.k = k;
    kernel.issued_by = issued_by;
    return add(kernel);
  }
  Trace& other(OpKind kind, std::int64_t issued_by = -1) {
    TracedKernel kernel;
    kernel.kind = kind;
    kernel.issued_by = issued_by;
    return add(kernel);
  }
  Trace& all_reduce(std::int64_t bytes) {
    TracedKernel kernel;
    kernel.kind = OpKind::collective;
    kernel.collective = CollectiveKind::all_reduce;
    kernel.bytes = Bytes{bytes};
    return add(kernel);
  }
  const TracedTimeline& timeline() const { return timeline_; }

 private:
  Trace& add(TracedKernel kernel) {
    kernel.begin = timeline_.end;
    kernel.end = timeline_.end += 1us;
    timeline_.ranks[0].kernels.push_back(std::move(kernel));
    return *this;
  }
  TracedTimeline timeline_;
};

using Ops = std::vector<std::uint32_t>;
constexpr std::uint32_t none = no_operator;

Ops aligned(const Forecast& forecast, const Trace& trace) {
  return align(forecast.record(), trace.timeline()).tracks.at(0).in_a;
}

TEST_CASE("products are matched by shape, whichever operand comes first; other shapes are not",
          "[align]") {
  const Forecast forecast = Forecast{}.gemm(512, 1024, 256).gemm(512, 256, 1024);
  CHECK(aligned(forecast, Trace{}.gemm(1024, 512, 256).gemm(512, 256, 1024)) == Ops{0, 1});
  CHECK(aligned(forecast, Trace{}.gemm(512, 1024, 255).gemm(512, 256, 1024)) == Ops{none, 1});
}

TEST_CASE("a product of two kernels is one product, and the next one is the next", "[align]") {
  const Forecast forecast = Forecast{}.gemm(64, 64, 64).gemm(64, 64, 64);
  CHECK(aligned(forecast, Trace{}.gemm(64, 64, 64, 1).gemm(64, 64, 64, 1).gemm(64, 64, 64, 2)) ==
        Ops{0, 0, 1});
}

TEST_CASE("products that cross are not all anchors: those that stay are in order", "[align]") {
  const Forecast forecast = Forecast{}.gemm(1, 1, 1).gemm(2, 2, 2).gemm(3, 3, 3);
  CHECK(aligned(forecast, Trace{}.gemm(3, 3, 3).gemm(1, 1, 1).gemm(2, 2, 2)) == Ops{none, 0, 1});
}

TEST_CASE("the rest is matched class by class between products, then what is left over",
          "[align]") {
  const Forecast forecast = Forecast{}
                                .other(OpKind::norm)
                                .gemm(8, 8, 8)
                                .other(OpKind::attention)
                                .other(OpKind::elementwise)
                                .gemm(9, 9, 9)
                                .other(OpKind::norm);
  // The second norm stands before the second product here: it is left over on both sides.
  CHECK(aligned(forecast, Trace{}
                              .other(OpKind::norm)
                              .gemm(8, 8, 8)
                              .other(OpKind::elementwise)
                              .other(OpKind::norm)
                              .other(OpKind::attention)
                              .gemm(9, 9, 9)) == Ops{0, 1, 3, 5, 2, 4});
}

TEST_CASE("an operator has all kernels that the framework's operator issued", "[align]") {
  const Forecast forecast = Forecast{}.other(OpKind::attention).other(OpKind::attention);
  CHECK(aligned(forecast, Trace{}
                              .other(OpKind::attention, 5)
                              .other(OpKind::attention, 5)
                              .other(OpKind::attention, 6)) == Ops{0, 0, 1});
  // As many as it launches, where that adds up.
  CHECK(aligned(Forecast{}.other(OpKind::norm, 2).other(OpKind::norm),
                Trace{}.other(OpKind::norm).other(OpKind::norm).other(OpKind::norm)) ==
        Ops{0, 0, 1});
}

TEST_CASE("collectives are matched by bytes and call; what is left over counts as unmatched",
          "[align]") {
  const Forecast forecast = Forecast{}.all_reduce(100).all_reduce(200).all_reduce(100);
  const Trace trace = Trace{}.all_reduce(100).all_reduce(100).all_reduce(300).all_reduce(200);
  CHECK(aligned(forecast, trace) == Ops{0, 2, none, 1});
  const RecordMatch match = align(forecast.record(), trace.timeline());
  CHECK_THAT(match.share(), WithinRel(0.75, 1e-12));
  CHECK(match.operators == 4);
  CHECK(match.matched_operators == 3);
  CHECK(match.tracks[0].in_b == Ops{0, 3, 1});
}

}  // namespace
