"use strict";
// Every page is complete without this script; it only adds what HTML cannot do.
