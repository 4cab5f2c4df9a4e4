// The digits of the sort, which partitions read as devices.

#pragma once

#include "prelude.h"

// Number of digits of a pass, and of words of its counts for each tile.
#define SORT_DIGITS 256
