#include <inputs/remote_sets.hpp>

#include <utility>

#include <mpt/console/say.hpp>
#include <mpt/hub/settings.hpp>

#include <inputs/http.hpp>
#include <launch/launch.hpp>

mpt::remote_sets apps::open_remote_sets(mpt::data_config const& data) {
  bool const says_waits = is_primary_here();
  mpt::data::shard_cache_options options;
  options.connect = [says_waits](mpt::net::retry_policy const& policy,
                                 mpt::net::http_client::sleeper sleep) {
    return network_with(policy, std::move(sleep), says_waits);
  };
  options.note = [says_waits](std::string const& sentence) {
    if (says_waits) mpt::console::say("note: {}\n", sentence);
  };
  return mpt::open_remote_sets(
      data, options, [] { return mpt::net::read_object_store(mpt::hub::process_environment); });
}
