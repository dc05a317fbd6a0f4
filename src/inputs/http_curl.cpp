#include <utility>

#include <mpt/console/say.hpp>
#include <mpt/net/curl_transport.hpp>

#include <inputs/http.hpp>

mpt::net::http_transport apps::http_transport() { return mpt::net::curl_transport(); }

mpt::net::network apps::network() { return network_with({}, {}, true); }

mpt::net::network apps::network_with(mpt::net::retry_policy const& policy,
                                     mpt::net::http_client::sleeper sleep, bool says_waits) {
  auto const say_wait = [says_waits](std::string const& sentence) {
    if (says_waits) mpt::console::say("note: {}\n", sentence);
  };
  return {mpt::net::http_client(http_transport(), policy, say_wait, std::move(sleep))};
}
