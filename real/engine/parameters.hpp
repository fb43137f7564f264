// The parameters of a model by name, and where each rank holds which part of them.
//
// A rank's part of a parameter is a rectangle of it: rows of a column-split matrix, columns of a
// row-split one, rows of a table. What is several matrices in one ([q | k | v], [gate | up]) is
// split part by part, so it is several rectangles. Rows beyond the vocabulary, and the padding of
// buckets, are no parameters: they are zero.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "real/engine/bound_program.hpp"

namespace real {

enum class InitialValues : std::uint8_t { normal, ones, zeros };

struct Parameter {
  std::string name;  // "layers.3.qkv.weight", "final_norm.bias", "embedding.weight"
  std::int64_t rows = 0, columns = 1;
  InitialValues initial = InitialValues::normal;
  double deviation = 0;  // of normal
  std::int64_t elements() const { return rows * columns; }
};

// Tied tables once. In the order of the model; behind each linear with an adapter
// (Layout::lora_rank) the factors of that.
std::vector<Parameter> parameters_of(const sim::Model& model, const sim::Layout& layout = {});

// A rectangle of a parameter, row by row and without gaps in a bucket.
struct Piece {
  std::uint32_t parameter = 0;  // index into parameters_of()
  std::uint32_t bucket = 0;
  std::int64_t first = 0;  // element of the bucket
  std::int64_t rows = 0, columns = 0;
  std::int64_t row = 0, column = 0;  // of the parameter, where it begins
  std::int64_t elements() const { return rows * columns; }
  std::int64_t end() const { return first + elements(); }
};

// All that the buckets of this rank hold, by bucket and place; not only what it owns.
std::vector<Piece> pieces_of(const BoundProgram& bound, const std::vector<Parameter>& parameters);

// The frozen weights of this rank; `first` counts from the start of the first ones.
std::vector<Piece> frozen_pieces_of(const BoundProgram& bound,
                                    const std::vector<Parameter>& parameters);

// visit(element of the piece's rectangle, element of the parameter, count) for every run of
// neighbours in both, of elements [from, to) of the rectangle.
template <class Visit>
void for_each_run(const Piece& piece, const Parameter& parameter, std::int64_t from,
                  std::int64_t to, Visit visit) {
  if (piece.columns == parameter.columns) {
    if (from < to) visit(from, piece.row * parameter.columns + from, to - from);
    return;
  }
  for (std::int64_t at = from; at < to;) {
    const std::int64_t row = at / piece.columns;
    const std::int64_t next = (row + 1) * piece.columns < to ? (row + 1) * piece.columns : to;
    visit(at, (piece.row + row) * parameter.columns + piece.column + (at - row * piece.columns),
          next - at);
    at = next;
  }
}

}  // namespace real
