// kernel_autotune: makes all ranks of a run use the same algorithms for matrix products and
// attention, and a resumed run those that it used before. Some devices choose between a library's
// algorithms by timing them, so that otherwise equal runs would not have equal bits.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <parallel/comm/any_communicator.hpp>
#include <parallel/comm/texts.hpp>
#include <parallel/core/file.hpp>

namespace mpt {

/// Whether a stream's kernels can be tuned, by the functions of ops/cuda/tuning.hpp or another
/// device's functions of the same names.
template <class Stream>
inline constexpr bool has_tuned_kernels = requires(Stream& s) {
  tune_kernels(s, true);
  use_kernels(s, tuned_kernels(s));
};

/// Makes the streams of `compute` use the table of algorithms in `file` if it was made for this
/// device on every rank. Otherwise tunes by calling try_all(), which runs every operation of the
/// run once, and merges the tables of the ranks; rank 0 writes the result to `file` unless that is
/// empty. Collective. Returns whether it has tuned.
template <class Stream, class Exchange, class TryAll>
bool agree_on_kernels(std::vector<Stream*> const& compute, parallel::any_communicator& comm,
                      Exchange& exchanges, std::filesystem::path const& file, TryAll&& try_all) {
  using table_type = std::remove_cvref_t<decltype(tuned_kernels(*compute.front()))>;
  auto const set_kernels = [&](table_type const& table) {
    for (auto* const stream : compute) use_kernels(*stream, table);
  };
  std::string text;
  if (comm.rank() == 0 && !file.empty() && std::filesystem::is_regular_file(file)) {
    std::ifstream in(file);
    text.assign(std::istreambuf_iterator<char>(in), {});
  }
  text = broadcast_text(comm, exchanges, std::move(text));
  std::int64_t fits = 0;
  if (!text.empty()) {
    auto table = table_type::parse(text, file.string());
    fits = table.made_for() == tuned_kernels(*compute.front()).made_for() ? 1 : 0;
    comm.all_reduce(exchanges, std::span<std::int64_t>(&fits, 1), parallel::reduction::min).wait();
    if (fits == 1) {
      set_kernels(table);
      return false;
    }
  }
  for (auto* const stream : compute) tune_kernels(*stream, true);
  try_all();
  for (auto* const stream : compute) tune_kernels(*stream, false);
  table_type merged = tuned_kernels(*compute.front());
  for (auto* const stream : compute) merged.merge(tuned_kernels(*stream));
  auto const tables = gather_texts(comm, exchanges, to_text(merged));
  auto agreed = table_type::parse(tables.front(), "rank 0's tuning");
  for (std::size_t r = 1; r < tables.size(); ++r)
    agreed.merge(table_type::parse(tables[r], parallel::concat("the tuning of rank ", r)));
  if (comm.rank() == 0 && !file.empty()) {
    std::filesystem::create_directories(file.parent_path());
    parallel::replace_text_file(file, to_text(agreed));
  }
  set_kernels(agreed);
  return true;
}

}  // namespace mpt
