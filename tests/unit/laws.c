/* SPDX-License-Identifier: GPL-2.0-only */
/* The laws as a shared library for the host tests: the headers, their inline
 * functions under the names that tests/unit/conftest.py declares to cffi. */
#define LAW /* exported */
#define LAW_APART
#define LAW_INSIDE
#include "law/backlog.h"
#include "law/chance.h"
#include "law/chirp.h"
#include "law/delay.h"
#include "law/falls.h"
#include "law/flat.h"
#include "law/gentle_start.h"
#include "law/highspeed.h"
#include "law/inference.h"
#include "law/layers.h"
#include "law/le_loss.h"
#include "law/nf.h"
#include "law/noise.h"
#include "law/options.h"
#include "law/range.h"
#include "law/red.h"
#include "law/rx_window.h"
#include "law/silence.h"
#include "law/small_window.h"
#include "law/spacing.h"
#include "law/westwood.h"
#include "tests/lab/peers/ledbatpp.h"
#include "tests/lab/peers/rledbatpp.h"
