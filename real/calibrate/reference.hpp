// The reference: a fixed GEMM and a fixed copy that all ranks run at once between everything that
// is measured. How fast it runs says in which phase the machine is; neither a forecast nor a step
// has a part in it.
//
// Two figures, for two kinds of measurement:
//   typical  the median GEMM and the median copy of a rank: the speed of a core or a device while
//            it runs. Kernels are short, and so are these pieces.
//   whole    from a common start to the end of the slowest rank, per piece: with everything that
//            other processes take in between. Steps are long, so the reference beside one is, too.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "real/calibrate/gpu_state.hpp"
#include "real/net/transport.hpp"

namespace real {

// Seconds of one GEMM and of one copy.
struct ReferencePiece {
  double product = 0, copy = 0;
};

// ReferenceRun is the reference as one rank measured it.
struct ReferenceRun {
  ReferencePiece typical;
  double whole = 0;  // seconds per piece, a GEMM and a copy each
};

class Reference {
 public:
  virtual ~Reference() = default;
  // REQUIRES: pieces > 0.
  virtual ReferenceRun run(int pieces) = 0;
  // How many pieces say how fast the machine is, and how many stand beside a step of so many
  // seconds, where a piece takes `piece` seconds.
  virtual int pieces_between_kernels() const = 0;
  virtual int pieces_beside_step(double step, double piece) const = 0;
  virtual std::int64_t bytes() const { return 0; }  // of device memory
  // The device's state now, or the reason why there is none.
  virtual std::optional<GpuReading> state() const { return std::nullopt; }
  virtual std::string no_state() const { return {}; }
};

// `share_cores`: ranks outnumber the cores and take turns; means instead of medians then.
std::unique_ptr<Reference> make_host_reference(bool share_cores);
// Throws std::runtime_error where the program is built without CUDA or there is no such GPU.
std::unique_ptr<Reference> make_cuda_reference(int device);
// Whether so many ranks of the host backend outnumber the cores of this machine.
bool ranks_share_cores(int ranks);

// ReferenceSample is over all ranks, and the same on each: the mean of `typical`, the slowest
// `whole`.
struct ReferenceSample {
  ReferencePiece typical;
  double whole = 0;
};
// Collective.
ReferenceSample sample_reference(Reference& reference, Transport& transport, int pieces);

// ReferenceKind is the one of the two figures that follows a measurement.
enum class ReferenceKind : unsigned char { product, copy };

// Takes the drift of the machine out of a measurement: mark() before it and after it, then its time
// multiplied by scale() is what it would have been when the meter was made.
class DriftMeter {
 public:
  // Collective, as mark() is. All of these outlive the meter.
  DriftMeter(Reference& reference, Transport& transport, bool share_cores);
  void mark();
  // From here on the device's state belongs to this part.
  void begin_part(const std::string& name);
  // "kernels: SM 1755 MHz ...", a line for each part with marks; or why there are none.
  std::vector<std::string> conditions() const;
  double scale(ReferenceKind kind) const;  // by the last two marks
  // The factor for times that were scaled, so that they are those of the typical phase and not of
  // the first.
  double rescale(ReferenceKind kind) const;
  // The typical sample of all marks. `whole` is what a piece takes beside nobody: the GEMM and the
  // copy; of ranks that share cores, what it took.
  ReferenceSample typical() const;
  // `whole` of each mark over that of typical().
  std::vector<double> slowdowns() const;

 private:
  Reference& reference_;
  Transport& transport_;
  bool share_cores_;
  std::vector<ReferenceSample> marks_;
  std::vector<std::pair<std::string, GpuLog>> parts_;
};

}  // namespace real
