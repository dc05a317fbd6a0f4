#include <mpt/console/say.hpp>
#include <mpt/net/curl_transport.hpp>
#include <mpt/net/openssl_digest.hpp>

#include "support/http.hpp"

mpt::net::http_transport apps::http_transport() { return mpt::net::curl_transport(); }

mpt::net::network apps::network() {
  auto const say_wait = [](std::string const& sentence) {
    mpt::console::say("note: {}\n", sentence);
  };
  return {mpt::net::http_client(http_transport(), {}, say_wait), mpt::net::openssl_digest};
}
