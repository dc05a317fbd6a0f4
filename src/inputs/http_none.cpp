#include <inputs/http.hpp>

mpt::net::http_transport apps::http_transport() { return {}; }

mpt::net::network apps::network() { return {mpt::net::http_client(http_transport())}; }

mpt::net::network apps::network_with(mpt::net::retry_policy const&, mpt::net::http_client::sleeper,
                                     bool) {
  return network();
}
