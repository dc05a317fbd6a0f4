// The cost of the manifest of an MPT-7B checkpoint by the number of ranks that saved it: its bytes,
// the time to format and to parse it, and the memory of parsing.
#include <sys/resource.h>

#include <string>
#include <vector>

#include <fmt/format.h>

#include <parallel/checkpoint/format/manifest.hpp>

#include <cli/app.hpp>
#include "parts/clock.hpp"

namespace {

namespace pc = parallel::checkpoint;
using parallel::index;

struct tensor {
  std::string name;
  index size;
};

/// The tensors of MPT-7B, by unit.
std::vector<std::vector<tensor>> mpt_7b_units() {
  constexpr index d = 4096;
  std::vector<std::vector<tensor>> out{{{"transformer.wte.weight", 50432 * d}}};
  for (int block = 0; block < 32; ++block) {
    auto const name = [&](char const* part) {
      return parallel::concat("transformer.blocks.", block, '.', part, ".weight");
    };
    out.push_back({{name("norm_1"), d},
                   {name("attn.Wqkv"), 3 * d * d},
                   {name("attn.out_proj"), d * d},
                   {name("norm_2"), d},
                   {name("ffn.up_proj"), 4 * d * d},
                   {name("ffn.down_proj"), 4 * d * d}});
  }
  out.push_back({{"transformer.norm_f.weight", d}});
  return out;
}

/// The slices that ZeRO saves on this number of ranks.
pc::slice_set slices_saved_on(index ranks) {
  pc::slice_set out;
  auto const file_of = [](index rank) {
    auto const number = std::to_string(rank);
    return parallel::concat("rank-", std::string(5 - number.size(), '0'), number,
                            "-F32-000.safetensors");
  };
  for (auto const& unit : mpt_7b_units()) {
    index size = 0;
    for (auto const& part : unit) size += part.size;
    index const shard = (size + ranks - 1) / ranks;
    for (std::string const state : {"", "#exp_avg", "#exp_avg_sq"}) {
      index offset = 0;  // the position of the tensor in the unit
      for (auto const& [name, count] : unit) {
        auto& slices = out.tensors[name + state] = {pc::element_type::f32, {count}, {}};
        for (index begin = 0; begin < count;) {
          index const rank = (offset + begin) / shard;
          index const end = std::min(count, (rank + 1) * shard - offset);
          auto& file_bytes = out.files[file_of(rank)];
          auto const bytes = static_cast<std::uint64_t>(4 * (end - begin));
          slices.slices.push_back({.begin = begin,
                                   .end = end,
                                   .file = file_of(rank),
                                   .offset = file_bytes,
                                   .bytes = bytes,
                                   .checksum = 0x9e3779b97f4a7c15U * (file_bytes + 1)});
          file_bytes += bytes;
          begin = end;
        }
        offset += count;
      }
    }
  }
  return out;
}

std::size_t peak_mib() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<std::size_t>(usage.ru_maxrss) >> 10;
}

void run(index ranks) {
  pc::manifest const saved{nlohmann::json::object(), slices_saved_on(ranks)};
  std::size_t slices = 0;
  for (auto const& [name, tensor_entry] : saved.slices.tensors)
    slices += tensor_entry.slices.size();
  auto const begin_time = bench::read_clock(bench::clock_kind::processor);
  auto const text = pc::format_manifest(saved, "manifest");
  auto const write_time = bench::read_clock(bench::clock_kind::processor);
  auto const peak_before_reading = peak_mib();
  auto const read = pc::parse_manifest(text, "manifest");
  auto const read_time = bench::read_clock(bench::clock_kind::processor);
  parallel::require(read.slices.files == saved.slices.files,
                    "the parsed manifest differs from the one that was formatted");
  fmt::print(
      "{:>6} ranks {:>8} slices {:>6.1f} MiB, written in {:.3f} s, read in {:.3f} s "
      "({} MiB more at its peak)\n",
      ranks, slices, static_cast<double>(text.size()) / 1048576, write_time - begin_time,
      read_time - write_time, peak_mib() - peak_before_reading);
}

}  // namespace

int main(int argc, char** argv) {
  parallel::index ranks = 1024;
  CLI::App app{"Measures the cost of the manifest of an MPT-7B checkpoint"};
  app.add_option("ranks", ranks, "Number of ranks that saved the checkpoint")
      ->check(CLI::Range(1, 99999));
  return apps::run(app, argc, argv, [&] { run(ranks); });
}
