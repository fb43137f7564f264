// Units of the simulator: simulated time, data, rates and work.
//
// Time is std::chrono with a clock of our own, so an instant and a length of time cannot be mixed
// up. The other quantities are one-member value types with only the operators that mean something
// physically. Everything is constexpr C++20 and compiles under nvcc 13.0 too; that is why <=> is a
// member: as a defaulted hidden friend, nvcc loses the == that it implies.
#pragma once

#include <chrono>
#include <compare>
#include <cstdint>
#include <stdexcept>

namespace sim {

// 1 ps ticks: one byte at 900 GB/s takes 1.1 ps. int64 ticks reach 106 days of simulated time.
using Duration = std::chrono::duration<std::int64_t, std::pico>;

struct SimClock {  // never read from the host: only the engine advances it
  using rep = Duration::rep;
  using period = Duration::period;
  using duration = Duration;
  using time_point = std::chrono::time_point<SimClock>;
  static constexpr bool is_steady = true;
};
using TimePoint = SimClock::time_point;

// Rounds to the nearest tick, but never to zero: work takes time. (Not up: 50 B at 50 GB/s is
// 1000.0000000000001 ps in double arithmetic, and rounding up would make it 1001.)
// Throws std::overflow_error beyond 106 days, for negative input and for NaN.
constexpr Duration duration_from_seconds(double seconds) {
  const double ticks = seconds * 1e12;
  if (!(ticks >= 0.0 && ticks < 9.2e18)) throw std::overflow_error("duration out of range");
  if (ticks > 0.0 && ticks < 1.0) return Duration{1};
  const auto whole = static_cast<std::int64_t>(ticks);
  return Duration{ticks - static_cast<double>(whole) < 0.5 ? whole : whole + 1};
}
constexpr double to_seconds(Duration d) {
  return static_cast<double>(d.count()) * 1e-12;
}
constexpr double to_seconds(TimePoint t) {
  return to_seconds(t.time_since_epoch());
}

class Bytes {
 public:
  constexpr Bytes() = default;
  constexpr explicit Bytes(std::int64_t count) : count_{count} {}
  constexpr std::int64_t count() const { return count_; }
  constexpr double gib() const { return static_cast<double>(count_) / (1024.0 * 1024 * 1024); }
  constexpr Bytes& operator+=(Bytes other) { return count_ += other.count_, *this; }
  constexpr Bytes& operator-=(Bytes other) { return count_ -= other.count_, *this; }
  friend constexpr Bytes operator+(Bytes a, Bytes b) { return Bytes{a.count_ + b.count_}; }
  friend constexpr Bytes operator-(Bytes a, Bytes b) { return Bytes{a.count_ - b.count_}; }
  friend constexpr Bytes operator*(Bytes a, std::int64_t n) { return Bytes{a.count_ * n}; }
  constexpr auto operator<=>(const Bytes&) const = default;

 private:
  std::int64_t count_ = 0;
};

// FLOPs of one step of a large model exceed int64, hence double (exact to 2^53 per operation).
class Flops {
 public:
  constexpr Flops() = default;
  constexpr explicit Flops(double count) : count_{count} {}
  constexpr double count() const { return count_; }
  constexpr Flops& operator+=(Flops other) { return count_ += other.count_, *this; }
  friend constexpr Flops operator+(Flops a, Flops b) { return Flops{a.count_ + b.count_}; }
  friend constexpr Flops operator*(Flops a, double n) { return Flops{a.count_ * n}; }
  constexpr auto operator<=>(const Flops&) const = default;

 private:
  double count_ = 0;
};

class Bandwidth {  // fair shares are fractional, hence double
 public:
  constexpr Bandwidth() = default;
  static constexpr Bandwidth bytes_per_second(double v) { return Bandwidth{v}; }
  static constexpr Bandwidth bits_per_second(double v) { return Bandwidth{v / 8}; }
  constexpr double in_bytes_per_second() const { return value_; }
  friend constexpr Bandwidth operator+(Bandwidth a, Bandwidth b) {
    return Bandwidth{a.value_ + b.value_};
  }
  friend constexpr Bandwidth operator*(Bandwidth a, double n) { return Bandwidth{a.value_ * n}; }
  constexpr auto operator<=>(const Bandwidth&) const = default;

 private:
  constexpr explicit Bandwidth(double v) : value_{v} {}
  double value_ = 0;
};

class FlopRate {
 public:
  constexpr FlopRate() = default;
  static constexpr FlopRate per_second(double v) { return FlopRate{v}; }
  constexpr double in_flops_per_second() const { return value_; }
  friend constexpr FlopRate operator*(FlopRate a, double n) { return FlopRate{a.value_ * n}; }
  constexpr auto operator<=>(const FlopRate&) const = default;

 private:
  constexpr explicit FlopRate(double v) : value_{v} {}
  double value_ = 0;
};

constexpr Duration operator/(Bytes size, Bandwidth rate) {
  return duration_from_seconds(static_cast<double>(size.count()) / rate.in_bytes_per_second());
}
constexpr Duration operator/(Flops work, FlopRate rate) {
  return duration_from_seconds(work.count() / rate.in_flops_per_second());
}

inline namespace literals {
constexpr Bytes operator""_B(unsigned long long n) {
  return Bytes{static_cast<std::int64_t>(n)};
}
constexpr Bytes operator""_MiB(unsigned long long n) {
  return Bytes{static_cast<std::int64_t>(n) << 20};
}
constexpr Bytes operator""_GiB(unsigned long long n) {
  return Bytes{static_cast<std::int64_t>(n) << 30};
}
constexpr Bandwidth operator""_GBps(unsigned long long n) {
  return Bandwidth::bytes_per_second(static_cast<double>(n) * 1e9);
}
constexpr Bandwidth operator""_Gbps(unsigned long long n) {
  return Bandwidth::bits_per_second(static_cast<double>(n) * 1e9);
}
using std::chrono_literals::operator""ns;
using std::chrono_literals::operator""us;
using std::chrono_literals::operator""ms;
using std::chrono_literals::operator""s;
}  // namespace literals

}  // namespace sim
