#include "support/http.hpp"

mpt::net::http_transport apps::http_transport() { return {}; }
