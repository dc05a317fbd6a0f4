#include <mpt/data/prepare_share.hpp>

#include <algorithm>
#include <numeric>
#include <string>
#include <utility>

#include <nlohmann/json.hpp>

#include <mpt/data/json.hpp>
#include <mpt/data/locks.hpp>
#include <mpt/data/records.hpp>

namespace mpt::data {
namespace {

[[nodiscard]] std::string part_name(process_share share) {
  auto const padded = [](std::uint64_t number) {
    auto text = std::to_string(number);
    return text.insert(0, text.size() < 5 ? 5 - text.size() : 0, '0');
  };
  return "part-" + padded(share.index) + "-of-" + padded(share.count);
}

/// The parameters that must be equal in all processes of a set. Cost: reads both ends of all
/// inputs.
[[nodiscard]] nlohmann::json shared_parameters(prepare_options options) {
  options.inputs.clear();  // they differ from part to part
  options.first_input = 0;
  auto out = detail::prepare_parameters(options);
  out.erase("inputs");
  return out;
}

/// Throws if a part in `folder` that is finished, or has a finished shard, was prepared from other
/// inputs or with other parameters than `expected`, which all parts share.
void require_same_parts(std::filesystem::path const& folder, nlohmann::json const& expected) {
  if (!std::filesystem::is_directory(folder)) return;
  std::vector<std::filesystem::path> parts;
  for (auto const& entry : std::filesystem::directory_iterator(folder))
    if (entry.path().filename().native().starts_with("part-")) parts.push_back(entry.path());
  std::ranges::sort(parts);
  for (auto const& part : parts) {
    nlohmann::json recorded;
    if (auto const record = part / "prepare.json"; std::filesystem::exists(record))
      recorded = member(parse_json(parallel::read_text_file(record, 1U << 26), record.native()),
                        "parameters", record.native());
    else
      recorded = detail::prepare_journal(part).binding_parameters();
    if (recorded.is_null()) continue;
    auto const differences =
        parameter_differences(recorded, detail::as_recorded(expected, recorded), part);
    parallel::require(
        differences.empty(), part.native(),
        ": was prepared by a process with other files or options than this one:", differences,
        "\nAll processes of a set give the same files in the same order and the same "
        "options: repeat them, or choose another folder, or remove this part.");
  }
}

/// Writes one index of the shards of the named parts into `folder`. It is safe to run this twice,
/// also at the same time. Throws if no part has a sample.
std::uint64_t merge_parts(std::filesystem::path const& folder,
                          std::vector<std::string> const& parts) {
  std::vector<mds_shard> merged;
  std::uint64_t samples = 0;
  for (auto const& part : parts) {
    mds_reader const reader(folder / part);
    for (auto shard : reader.shards()) {
      samples += shard.samples;
      shard.raw.basename.insert(0, part + "/");
      if (shard.zip) shard.zip->basename.insert(0, part + "/");
      merged.push_back(std::move(shard));
    }
  }
  parallel::require(samples > 0, folder.native(), ": none of the ", parts.size(),
                    " parts has enough text for one sample: into another folder, give more text, "
                    "fewer processes or a smaller concat_tokens");
  folder_lock const lock(folder, folder_lock::contention::wait);
  parallel::replace_text_file(folder / "index.json", print_mds_index(merged));
  return samples;
}

/// Throws if `folder` holds another set than this one of `count` parts.
void require_own_parts(std::filesystem::path const& folder, std::uint64_t count) {
  auto const ending = part_name({0, count}).substr(10);  // "-of-00004"
  if (!std::filesystem::is_directory(folder)) return;
  for (auto const& entry : std::filesystem::directory_iterator(folder)) {
    auto const name = entry.path().filename().native();
    bool const is_foreign = (name.starts_with("part-") && !name.ends_with(ending)) ||
                            name.starts_with("shard.") || name.starts_with("prepare.");
    parallel::require(!is_foreign, folder.native(), ": already holds ", name,
                      ", which a run of another number of processes left; repeat that number, "
                      "choose another folder or remove this one");
  }
}

}  // namespace

input_range inputs_of(std::vector<std::uint64_t> const& sizes, process_share share) {
  auto const total = std::accumulate(sizes.begin(), sizes.end(), std::uint64_t{0});
  input_range out;
  std::uint64_t preceding_bytes = 0;
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    auto const middle = static_cast<double>(preceding_bytes) + static_cast<double>(sizes[i]) / 2;
    auto const owner = static_cast<std::uint64_t>(
        total == 0 ? 0 : middle / static_cast<double>(total) * static_cast<double>(share.count));
    if (owner < share.index) out.begin = i + 1;
    if (owner <= share.index) out.end = i + 1;
    preceding_bytes += sizes[i];
  }
  return out;
}

prepare_share_result prepare_share(prepare_options options, process_share share,
                                   std::function<text_encoder()> const& make_encoder) {
  parallel::require(share.count > 0 && share.index < share.count && share.count < 100000,
                    "process ", share.index, " of ", share.count,
                    ": expected a number below the count, which is at most 99999");
  parallel::require(options.split.empty() || is_plain_path(options.split), "split '", options.split,
                    "' is not the name of a sub-folder");
  prepare_share_result out;
  out.folder = options.split.empty() ? options.out_root : options.out_root / options.split;
  require_own_parts(out.folder, share.count);
  options.processes = share.count;
  options.all_inputs = options.inputs;
  auto const shared = shared_parameters(options);
  require_same_parts(out.folder, shared);
  std::vector<std::uint64_t> sizes;
  for (auto const& path : options.inputs) sizes.push_back(parallel::input_file(path).size());
  auto const inputs = inputs_of(sizes, share);

  if (inputs.begin < inputs.end) {
    auto const begin = options.inputs.begin();
    options.first_input = inputs.begin;
    options.out_root = out.folder;
    options.split = part_name(share);
    options.may_be_empty = true;
    options.inputs = {begin + static_cast<std::ptrdiff_t>(inputs.begin),
                      begin + static_cast<std::ptrdiff_t>(inputs.end)};
    out.part = prepare(options, make_encoder);
  }

  std::vector<std::string> parts;
  for (std::uint64_t i = 0; i < share.count; ++i) {
    auto const range = inputs_of(sizes, {i, share.count});
    if (range.begin >= range.end) continue;
    parts.push_back(part_name({i, share.count}));
    auto const record = out.folder / parts.back() / "prepare.json";  // written last
    if (!std::filesystem::exists(record)) ++out.missing;
  }
  if (out.missing > 0) return out;
  require_same_parts(out.folder, shared);
  out.samples = merge_parts(out.folder, parts);
  return out;
}

}  // namespace mpt::data
