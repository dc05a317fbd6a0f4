#include <mpt/train/data/remote_sets.hpp>

#include <chrono>
#include <system_error>
#include <utility>
#include <vector>

#include <mpt/train/data/stream_folder.hpp>
#include <mpt/yaml/node.hpp>

namespace mpt {
namespace {

[[nodiscard]] data::remote_set remote_set_from(stream_config const& stream,
                                               std::function<net::object_store()> const& store) {
  auto const settings = stream.remote.starts_with("s3:") ? store() : net::object_store();
  data::remote_set out{
      .remote = net::remote_folder(stream.remote, settings).subfolder(stream.split),
      .folder = stream_folder(stream)};
  out.retries.attempts = static_cast<int>(stream.download_retry) + 1;
  out.retries.unreachable_attempts = out.retries.attempts;
  out.retries.longest_retry_after = std::chrono::seconds(60);
  out.retries.shortens_retry_after = true;
  out.idle_timeout =
      std::chrono::milliseconds(static_cast<std::int64_t>(stream.download_timeout * 1000));
  return out;
}

/// Throws where a file of the set in `folder` is absent, as in one that is yet to be downloaded.
void require_whole(std::filesystem::path const& folder, std::string const& remote) {
  auto const index = folder / "index.json";
  auto const text = parallel::read_text_file(index, data::max_mds_index_bytes);
  auto const shards = data::parse_mds_index(text, index.native());
  std::size_t count = 0;
  std::string absent_name;
  for (auto const& shard : shards) {
    auto const has = [&](data::mds_file const& file) {
      std::error_code absent;
      auto const bytes = std::filesystem::file_size(folder / file.basename, absent);
      return !absent && bytes == file.bytes;
    };
    if (has(shard.raw) || (shard.zip && has(*shard.zip)))
      ++count;
    else if (absent_name.empty())
      absent_name = shard.raw.basename;
  }
  parallel::require(count == shards.size(), folder.native(), ": has ", count, " of the ",
                    shards.size(), " shards that its index.json lists (not ",
                    printable(absent_name),
                    "), so it is no whole set, and no run of these programs began to download it; "
                    "name another folder as local, into which ",
                    remote, " is downloaded, or remove this one");
}

void refuse_cache(std::filesystem::path const& folder) {
  if (data::shard_cache::is_cache(folder))
    parallel::fail(folder.native(), ": is a cache, in which shards of ",
                   printable(data::shard_cache::address_of(folder)),
                   " come and go, and no whole set; give that address as remote, too");
}

/// Opens the cache of a loader; null where no stream needs one.
[[nodiscard]] std::shared_ptr<data::shard_cache> open_cache(
    loader_config const& loader, data::shard_cache_options options,
    std::function<net::object_store()> const& store) {
  std::vector<data::remote_set> sets;
  for (auto const& stream : loader.streams) {
    auto const folder = stream_folder(stream);
    if (!is_remote(stream.remote)) {
      refuse_cache(folder);
      continue;
    }
    // in this order: a cache that another process makes has its mark before its index
    if (parallel::files::exists(folder / "index.json") && !data::shard_cache::is_cache(folder)) {
      require_whole(folder, stream.remote);
      if (options.note)
        options.note(folder.native() + ": is read in place; nothing is downloaded from " +
                     stream.remote);
      continue;
    }
    sets.push_back(remote_set_from(stream, store));
  }
  if (sets.empty()) return nullptr;
  options.limit = loader.cache_limit;
  return std::make_shared<data::shard_cache>(std::move(sets), std::move(options));
}

}  // namespace

remote_sets open_remote_sets(data_config const& data, data::shard_cache_options const& options,
                             std::function<net::object_store()> const& store) {
  remote_sets sets{.train = open_cache(data.train_loader, options, store)};
  for (auto const& loader : data.eval_loaders)
    sets.evaluation.push_back(open_cache(loader, options, store));
  return sets;
}

data::cached_set remote_set_of(std::shared_ptr<data::shard_cache> const& cache,
                               std::filesystem::path const& folder) {
  if (cache == nullptr) return {};
  auto const set = cache->find(folder);
  if (!set) return {};
  return {cache, *set};
}

}  // namespace mpt
