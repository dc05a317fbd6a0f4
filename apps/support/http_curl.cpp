#include <mpt/net/curl_transport.hpp>

#include "support/http.hpp"

mpt::net::http_transport apps::http_transport() { return mpt::net::curl_transport(); }
