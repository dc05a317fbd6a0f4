// gemm_autotune: on devices that choose between algorithms of a matrix product by timing them,
// all ranks of a run take the same, and a resumed run takes those of before: else equal runs would
// not have equal bits.
#pragma once

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <parallel/comm/any_communicator.hpp>
#include <parallel/comm/texts.hpp>
#include <parallel/core/file.hpp>

namespace mpt {

/// Whether a stream's products can be tuned: the functions of ops/cuda/matmul.hpp, or another
/// device's like them.
template <class Stream>
inline constexpr bool has_tuned_products = requires(Stream& s) {
  tune_products(s, true);
  use_products(s, tuned_products(s));
};

/// Makes the streams of `compute` use the table of `file`, when it is one for this device, on every
/// rank; or tunes by calling try_all(), which runs every product of the run once, merges what the
/// ranks found, and rank 0 writes it to `file` (empty: nowhere). Collective. Returns whether it was
/// tuned.
template <class Stream, class Exchange, class TryAll>
bool agree_on_products(std::vector<Stream*> const& compute, parallel::any_communicator& comm,
                       Exchange& exchanges, std::filesystem::path const& file, TryAll&& try_all) {
  using table_type = std::remove_cvref_t<decltype(tuned_products(*compute.front()))>;
  auto const use = [&](table_type const& table) {
    for (auto* const stream : compute) use_products(*stream, table);
  };
  std::string text;
  if (comm.rank() == 0 && !file.empty() && std::filesystem::exists(file)) {
    std::ifstream in(file);
    text.assign(std::istreambuf_iterator<char>(in), {});
  }
  text = broadcast_text(comm, exchanges, std::move(text));
  std::int64_t fits = 0;
  if (!text.empty()) {
    auto table = table_type::parse(text, file.string());
    fits = table.made_for() == tuned_products(*compute.front()).made_for() ? 1 : 0;
    comm.all_reduce(exchanges, std::span<std::int64_t>(&fits, 1), parallel::reduction::min).wait();
    if (fits == 1) {
      use(table);
      return false;
    }
  }
  for (auto* const stream : compute) tune_products(*stream, true);
  try_all();
  for (auto* const stream : compute) tune_products(*stream, false);
  table_type own = tuned_products(*compute.front());
  for (auto* const stream : compute) own.merge(tuned_products(*stream));
  auto const found = gather_texts(comm, exchanges, to_text(own));
  auto agreed = table_type::parse(found.front(), "rank 0's products");
  for (std::size_t r = 1; r < found.size(); ++r)
    agreed.merge(table_type::parse(found[r], parallel::concat("the products of rank ", r)));
  if (comm.rank() == 0 && !file.empty()) {
    std::filesystem::create_directories(file.parent_path());
    parallel::replace_text_file(file, to_text(agreed));
  }
  use(agreed);
  return true;
}

}  // namespace mpt
