#pragma once

/// Whether a rank that is alone gets back what it gave to all collectives.
bool exchanges_agree();
