// stored_layout: where the elements of our parameters are in the tensors of a family's folder, and
// where the elements of those tensors are in our parameters. Both directions are one table of
// pieces, runs of rows of a parameter that are runs of rows of a tensor, or of its columns where
// the piece is transposed.
//
// Reading costs what reading the tensors costs, with one call for each run of rows that is
// contiguous in both; of a transposed tensor one call for each column.
#pragma once

#include <algorithm>
#include <cstddef>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <mpt/config/model/family.hpp>
#include <mpt/hf/export.hpp>
#include <parallel/core/error.hpp>

namespace mpt::hf {

/// The rows of a head of queries or keys that turn; 0: none.
[[nodiscard]] parallel::index turned_rows(model_config const& model);

/// The place of row i of a head where the two rows that turn together, i and turned / 2 + i of the
/// first `turned` ones, are neighbours.
[[nodiscard]] constexpr parallel::index interleaved_row(parallel::index i, parallel::index turned) {
  return i < turned ? 2 * (i % (turned / 2)) + i / (turned / 2) : i;
}

/// Elements of a matrix: `columns` of each of `rows` rows.
struct matrix_block {
  parallel::index row = 0;
  parallel::index rows = 0;
  parallel::index column = 0;
  parallel::index columns = 0;
};

/// Calls f(block) for the blocks, at most three, that hold elements [begin, begin + size) of a
/// matrix of this width in order: the end of a row, whole rows, the beginning of a row.
template <class F>
void for_each_block(parallel::index begin, parallel::index size, parallel::index width,
                    F const& f) {
  using parallel::index;
  if (index const column = begin % width; column != 0 && size > 0) {
    index const count = std::min(size, width - column);
    f(matrix_block{begin / width, 1, column, count});
    begin += count;
    size -= count;
  }
  if (size >= width) f(matrix_block{begin / width, size / width, 0, width});
  begin += size / width * width;
  if (size % width > 0) f(matrix_block{begin / width, 1, 0, size % width});
}

class stored_layout {
 public:
  /// `parameters`: names and shapes of all parameters of the model, adapters included. Throws when
  /// the family has no tensor for one of them.
  stored_layout(model_family const& family, model_config const& model,
                std::span<named_shape const> parameters);

  /// Names and shapes of the family's tensors, in the order of the parameters.
  [[nodiscard]] std::span<named_shape const> tensors() const { return tensors_; }
  [[nodiscard]] bool contains(std::string const& parameter) const {
    return parameter_pieces_.contains(parameter);
  }
  /// The shape of a parameter. Throws when the model has no such parameter.
  [[nodiscard]] std::vector<parallel::index> const& shape_of(std::string const& parameter) const {
    return find(parameter_pieces_, parameter).extents;
  }

  /// Fills `out` with elements of a parameter from `begin` on. read(tensor, begin, span) reads
  /// those of a tensor.
  template <class T, class Read>
  void read_parameter(std::string const& name, parallel::index begin, std::span<T> out,
                      Read const& read) const {
    read_elements(parameter_pieces_, name, begin, out, read);
  }
  /// Fills `out` with elements of a tensor of the family; read(parameter, begin, span) reads those
  /// of a parameter.
  template <class T, class Read>
  void read_tensor(std::string const& name, parallel::index begin, std::span<T> out,
                   Read const& read) const {
    read_elements(tensor_pieces_, name, begin, out, read);
  }
  /// Fills `out` with the block of a parameter, row by row.
  template <class T, class Read>
  void read_parameter_block(std::string const& name, matrix_block const& block, std::span<T> out,
                            Read const& read) const {
    read_block(find(parameter_pieces_, name), block, out, read);
  }
  /// Calls f(tensor, begin, offset, count) for the runs of elements of tensors that hold elements
  /// [begin, begin + size) of a parameter, `offset` counted from `begin`.
  template <class F>
  void for_each_run(std::string const& parameter, parallel::index begin, parallel::index size,
                    F const& f) const {
    using parallel::index;
    auto const& m = find(parameter_pieces_, parameter);
    for (auto const& p : m.pieces) {
      index const first = std::max(begin, p.row * m.width);
      index const last = std::min(begin + size, (p.row + p.rows) * m.width);
      if (p.is_transposed)
        for (index i = first; i < last; ++i)
          f(p.target, p.transposed_element(i / m.width, i % m.width), i - begin, index{1});
      else if (first < last)
        f(p.target, first + (p.target_row - p.row) * m.width, first - begin, last - first);
    }
  }

  /// The number of columns of a parameter; 1 for a vector.
  [[nodiscard]] parallel::index width_of(std::string const& parameter) const {
    return find(parameter_pieces_, parameter).width;
  }

 private:
  /// Rows [row, row + rows) of a matrix, which are rows of another one from `target_row` on. Where
  /// the piece is transposed, its columns are those rows, and its rows are the other's columns.
  struct piece {
    parallel::index row = 0;
    parallel::index rows = 0;
    std::string target;
    parallel::index target_row = 0;
    parallel::index target_width = 1;
    bool is_transposed = false;

    /// The element of the target that is an element of a transposed piece.
    [[nodiscard]] parallel::index transposed_element(parallel::index matrix_row,
                                                     parallel::index column) const {
      return (target_row + column) * target_width + matrix_row - row;
    }
  };
  struct matrix {
    std::vector<parallel::index> extents = {};
    parallel::index width = 1;
    std::vector<piece> pieces;  // in the order of rows, without gaps
  };
  using matrices = std::map<std::string, matrix>;

  void add(named_shape const& parameter, stored_names const& stored, model_config const& model);
  void add_transposed(named_shape const& parameter, parallel::index row, parallel::index rows,
                      std::string const& tensor);
  void add_piece(named_shape const& parameter, parallel::index row, parallel::index rows,
                 std::string const& tensor, parallel::index tensor_row);
  [[nodiscard]] static matrix const& find(matrices const& table, std::string const& name);

  template <class T, class Read>
  static void read_elements(matrices const& table, std::string const& name, parallel::index begin,
                            std::span<T> out, Read const& read) {
    auto const& m = find(table, name);
    std::size_t filled = 0;
    for_each_block(begin, std::ssize(out), m.width, [&](matrix_block const& block) {
      auto const count = static_cast<std::size_t>(block.rows * block.columns);
      read_block(m, block, out.subspan(filled, count), read);
      filled += count;
    });
  }

  template <class T, class Read>
  static void read_block(matrix const& m, matrix_block const& block, std::span<T> out,
                         Read const& read) {
    using parallel::index;
    auto const unsigned_count = [](index n) { return static_cast<std::size_t>(n); };
    std::vector<T> column;
    for (auto const& p : m.pieces) {
      index const first = std::max(block.row, p.row);
      index const last = std::min(block.row + block.rows, p.row + p.rows);
      if (p.is_transposed && first < last) {
        column.resize(unsigned_count(last - first));
        for (index c = 0; c < block.columns; ++c) {
          read(p.target, p.transposed_element(first, block.column + c), std::span<T>(column));
          for (index row = first; row < last; ++row)
            out[unsigned_count((row - block.row) * block.columns + c)] =
                column[unsigned_count(row - first)];
        }
        continue;
      }
      bool const is_whole = block.columns == m.width;
      index const step = is_whole ? last - first : 1;  // rows that are read at once
      for (index row = first; row < last; row += step)
        read(p.target, (p.target_row + row - p.row) * m.width + block.column,
             out.subspan(unsigned_count((row - block.row) * block.columns),
                         unsigned_count(step * block.columns)));
    }
  }

  std::vector<named_shape> tensors_;
  matrices parameter_pieces_;
  matrices tensor_pieces_;
};

/// The tensors of an export, and where their elements come from.
struct stored_tensors {
  std::vector<named_shape> shapes;
  std::optional<stored_layout> layout;  ///< none: they are the parameters themselves

  /// Fills `out` with elements of a tensor; read(parameter, begin, span) reads those of a
  /// parameter.
  template <class T, class Read>
  void read(std::string const& tensor, parallel::index begin, std::span<T> out,
            Read const& read_parameter) const {
    layout ? layout->read_tensor(tensor, begin, out, read_parameter)
           : read_parameter(tensor, begin, out);
  }
};

}  // namespace mpt::hf
