#include <mpt/train/data/remote_sets.hpp>

#include <chrono>
#include <utility>
#include <vector>

#include <mpt/train/data/stream_folder.hpp>

namespace mpt {
namespace {

[[nodiscard]] data::remote_set remote_set_from(stream_config const& stream,
                                               std::function<net::object_store()> const& store) {
  auto const settings = stream.remote.starts_with("s3:") ? store() : net::object_store();
  data::remote_set out{
      .remote = net::remote_folder(stream.remote, settings).subfolder(stream.split),
      .folder = stream_folder(stream)};
  out.retries.attempts = static_cast<int>(stream.download_retry) + 1;
  out.idle_timeout =
      std::chrono::milliseconds(static_cast<std::int64_t>(stream.download_timeout * 1000));
  return out;
}

void open_loader(loader_config& loader, data::shard_cache_options options,
                 std::function<net::object_store()> const& store) {
  std::vector<data::remote_set> sets;
  for (auto const& stream : loader.streams) {
    if (!is_remote(stream.remote)) continue;
    auto const folder = stream_folder(stream);
    // in this order: a cache that another process makes has its mark before its index
    if (parallel::files::exists(folder / "index.json") && !data::shard_cache::is_cache(folder))
      continue;
    sets.push_back(remote_set_from(stream, store));
  }
  if (sets.empty()) return;
  options.limit = loader.cache_limit;
  loader.cache = std::make_shared<data::shard_cache>(std::move(sets), std::move(options));
}

}  // namespace

void open_remote_sets(train_config& config, data::shard_cache_options const& options,
                      std::function<net::object_store()> const& store) {
  open_loader(config.train_loader, options, store);
  for (auto& loader : config.eval_loaders) open_loader(loader, options, store);
}

data::cached_set remote_set_of(loader_config const& loader, std::filesystem::path const& folder) {
  if (loader.cache == nullptr) return {};
  auto const set = loader.cache->find(folder);
  if (!set) return {};
  return {loader.cache, *set};
}

}  // namespace mpt
